package erpc

import (
	"bytes"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/security"
	"github.com/userspace-rpc/erpc/wire"
)

// TestSpentKeys: when the keys of a peer are spent nothing goes to it any more but packets of
// zeros, neither messages nor pings nor the word that the session ends.
func TestSpentKeys(t *testing.T) {
	p := newFarewells(t, Config{PSK: shakePSK})
	for _, peer := range p.client.engine.peers.watched {
		if peer.seal.Association = (security.Association{}); !peer.seal.Spent() {
			t.Fatal("the keys are not spent")
		}
	}
	req, err := p.client.Alloc(3000)
	if err != nil {
		t.Fatal(err)
	}
	done := func(c Completion) { c.Req.Free() }
	if _, err = p.client.EnqueueRequest(p.s, Request{Req: req, Done: done}); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		p.client.pass(100 * time.Millisecond)
	}
	_ = p.client.CloseSession(p.s)
	p.client.pass(time.Microsecond)
	for _, pkt := range p.client.end.sent {
		if !bytes.Equal(pkt.data, make([]byte, wire.HeaderSize)) {
			t.Errorf("%d bytes left: % x", len(pkt.data), pkt.data[:wire.HeaderSize])
		}
	}
	if n := len(p.client.end.sent); n < 10 {
		t.Errorf("%d packets left", n)
	}
}
