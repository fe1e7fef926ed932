package simtest

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/sim"
	"github.com/userspace-rpc/erpc/wire"
)

// forgetful is the transport of a server that tells nobody which sessions it does not know, as
// those of commit 4085675 did not.
type forgetful struct{ *sim.Endpoint }

// TxBurst loses all resets.
func (f forgetful) TxBurst(items []transport.TxItem) (int, error) {
	var rest []transport.TxItem
	for _, p := range items {
		var h wire.Header
		if h.Parse(p.Head) == nil && h.Type == wire.TypeMgmt && wire.Op(h.ReqType) == wire.OpReset {
			continue
		}
		rest = append(rest, p)
	}
	if n, err := f.Endpoint.TxBurst(rest); n < len(rest) || err != nil {
		return 0, err // all is sent again, which does no harm
	}
	return len(items), nil
}

func transportOf(s *server, ep *sim.Endpoint) transport.Transport {
	if s.old {
		return forgetful{ep}
	}
	return ep
}

// TestRedial: the only member is killed, starts again, and does not tell a client that it has
// forgotten its session. The client dials anew after an attempt without an answer, not only when
// the session has failed.
func TestRedial(t *testing.T) {
	for _, old := range []bool{false, true} {
		sh := small
		sh.replicas, sh.attempt, sh.tick = 1, 250*time.Millisecond, 20*time.Millisecond
		c, u := calm(t, sh)
		if r := c.put(u, "before"); r.Err != nil {
			t.Fatal(r.Err)
		}
		s := c.leader()
		s.crash()
		c.run(10 * time.Millisecond)
		s.old = old
		s.start()
		at := c.net.Now()
		if r := c.put(u, "after"); r.Err != nil {
			t.Fatal(r.Err)
		}
		if took := c.net.Now().Sub(at); took > 2*sh.attempt+20*sh.tick/2 {
			t.Errorf("forgetful %v: a write after %v", old, took)
		}
	}
}
