package erpc

import (
	"reflect"
	"runtime"
	"sync"
	"weak"

	"github.com/userspace-rpc/erpc/transport"
)

// claims has the claim of each transport that an endpoint owns, by what it points to. Claims are
// held weakly: an endpoint that the program drops without Close goes with its transport, and while
// a claim lives so does what it points to. Transports that are no pointers, or pointers to nothing,
// are not there: nobody can tell them apart.
var claims sync.Map // claimKey to weak.Pointer[claim]

// claimKey names a transport.
type claimKey struct {
	kind reflect.Type
	at   uintptr
}

// claim makes its holder the owner of a transport, until it closes that.
type claim struct {
	tr  transport.Transport
	key claimKey // zero if it is not in claims
}

// take makes the caller the owner of a transport. If it fails, the transport is as it was.
func take(tr transport.Transport) (*claim, error) {
	v := reflect.ValueOf(tr)
	if !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, &ConfigError{"Transport", "is nil"}
	}
	c := &claim{tr: tr}
	if v.Kind() != reflect.Pointer || v.Type().Elem().Size() == 0 {
		return c, nil
	}
	c.key = claimKey{v.Type(), v.Pointer()}
	mine := weak.Make(c)
	for {
		old, taken := claims.LoadOrStore(c.key, mine)
		switch {
		case !taken:
			runtime.AddCleanup(c, func(k claimKey) { claims.CompareAndDelete(k, mine) }, c.key)
			return c, nil
		case old.(weak.Pointer[claim]).Value() != nil:
			return nil, ErrTransportInUse
		}
		claims.CompareAndDelete(c.key, old) // of an endpoint that has been dropped
	}
}

// close closes the transport, which has no owner then.
func (c *claim) close() error {
	err := c.tr.Close()
	c.drop()
	return err
}

// drop ends the claim.
func (c *claim) drop() { claims.CompareAndDelete(c.key, weak.Make(c)) }
