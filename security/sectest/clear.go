package sectest

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/userspace-rpc/erpc/wire"
)

// Clear looks at each datagram that leaves the endpoints of a test's network. Between two
// endpoints that have sealed something, and from one that demands security, all but handshakes is
// sealed and nothing secret can be read. The zero Clear is ready; several goroutines may use it. A
// names endpoints.
type Clear[A comparable] struct {
	mu    sync.Mutex
	known map[[2]A]bool // two endpoints that have keys; or an endpoint that demands it, twice
}

// Demand says that an endpoint sends nothing to anybody without keys.
func (c *Clear[A]) Demand(end A) { c.note(end, end) }

func (c *Clear[A]) note(a, b A) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[[2]A]bool{}
	}
	c.known[[2]A{a, b}], c.known[[2]A{b, a}] = true, true
}

// Left looks at a datagram that leaves one endpoint for another. The error says what is wrong.
func (c *Clear[A]) Left(from, to A, pkt []byte, secrets ...[]byte) error {
	sealed := wire.IsSealed(pkt)
	if sealed {
		c.note(from, to)
	}
	c.mu.Lock()
	bound := c.known[[2]A{from, to}] || c.known[[2]A{from, from}]
	c.mu.Unlock()
	if !bound {
		return nil
	}
	if !sealed && !isHandshake(pkt) {
		return fmt.Errorf("sectest: this left %v for %v in the clear: % x", from, to, pkt)
	}
	for _, secret := range secrets {
		if bytes.Contains(pkt, secret) {
			return fmt.Errorf("sectest: a secret left %v for %v: % x", from, to, pkt)
		}
	}
	return nil
}

// isHandshake reports whether a packet may be in the clear: it is of a handshake, or the zeros that
// stand for a packet without keys.
func isHandshake(pkt []byte) bool {
	if bytes.Equal(pkt, make([]byte, wire.HeaderSize)) {
		return true
	}
	if len(pkt) < wire.HeaderSize || wire.Type(pkt[0]&0x0F) != wire.TypeMgmt {
		return false
	}
	if pkt[0]>>4 == 0 {
		return true // an offer of versions, which is of none itself
	}
	switch wire.Op(pkt[1]) {
	case wire.OpConnect, wire.OpChallenge, wire.OpRefuse, wire.OpCrypto, wire.OpNoKeys:
		return true
	}
	return false
}
