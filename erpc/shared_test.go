package erpc_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
)

// TestSharedPackets: where a sender can still change a packet that has been received, a
// handler sees a copy, whatever the size of the request.
func TestSharedPackets(t *testing.T) {
	for _, size := range []int{0, 1, 232, 233, 1000, 1448, 5000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			var seen []byte
			p := newSharedPair(t, func(n *erpc.Nexus, evil func()) {
				err := n.Register(1, erpc.Dispatch, func(h erpc.ReqHandle) {
					before := append([]byte(nil), h.Data()...)
					evil()
					if !bytes.Equal(before, h.Data()) {
						t.Error("the request changed while the handler ran")
					}
					seen = before
					if err := h.RespondBytes(nil); err != nil {
						t.Error(err)
					}
				})
				if err != nil {
					t.Fatal(err)
				}
			})
			req, err := p.client.Alloc(size)
			if err != nil {
				t.Fatal(err)
			}
			for i := range req.Data() {
				req.Data()[i] = byte(i)
			}
			want := append([]byte(nil), req.Data()...)
			over := false
			if _, err := p.client.EnqueueRequest(p.sess,
				erpc.Request{Type: 1, Req: req, Done: func(c erpc.Completion) {
					over = true
					if c.Err != nil {
						t.Error(c.Err)
					} else {
						c.Resp.Free()
					}
					c.Req.Free()
				}}); err != nil {
				t.Fatal(err)
			}
			p.until(func() bool { return over })
			if !bytes.Equal(seen, want) {
				t.Errorf("the handler saw %d bytes that differ from the %d sent", len(seen), len(want))
			}
			p.close()
		})
	}
}

// newSharedPair is newMemPair with a transport whose packets of more than
// transport.PrivateBytes the sender can change. Evil does so.
func newSharedPair(t *testing.T, register func(n *erpc.Nexus, evil func())) *memPair {
	var p *memPair
	evil := func() {
		for i := range p.send.slots {
			if s := &p.send.slots[i]; s.n > transport.PrivateBytes {
				for j := range s.buf[:s.n] {
					s.buf[j] ^= 0xFF
				}
			}
		}
	}
	p = newMemPairOn(t, &memNet{now: 1e9, shared: true}, erpc.Config{},
		func(n *erpc.Nexus) { register(n, evil) })
	return p
}
