package erpc

import (
	"reflect"
	"sync"

	"github.com/userspace-rpc/erpc/transport"
)

// claims has the claim of each transport that an endpoint owns, by the transport. Those of types
// that cannot be compared, and values without a byte, are not there: nobody can tell them apart.
var claims sync.Map

// claim makes its holder the owner of a transport, until it closes that.
type claim struct {
	tr     transport.Transport
	listed bool
}

// take makes the caller the owner of a transport. If it fails, the transport is as it was.
func take(tr transport.Transport) (*claim, error) {
	v := reflect.ValueOf(tr)
	if !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, &ConfigError{"Transport", "is nil"}
	}
	c := &claim{tr: tr, listed: v.Type().Size() > 0 && v.Comparable()}
	if c.listed {
		if _, taken := claims.LoadOrStore(tr, c); taken {
			return nil, ErrTransportInUse
		}
	}
	return c, nil
}

// close closes the transport, which has no owner then.
func (c *claim) close() error {
	err := c.tr.Close()
	c.drop()
	return err
}

// drop ends the claim. It is also for an endpoint that the program has dropped without Close.
func (c *claim) drop() {
	if c.listed {
		claims.CompareAndDelete(c.tr, c)
	}
}
