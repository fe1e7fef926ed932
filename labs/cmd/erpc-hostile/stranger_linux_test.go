package main

import (
	"bytes"
	"testing"

	"github.com/userspace-rpc/erpc/security"
	"github.com/userspace-rpc/erpc/wire"
)

// TestStrangersSay: what parts says is never a whole message. A server answers the ClientHello of
// hellos, which says what its Connect does.
func TestStrangersSay(t *testing.T) {
	s := stranger{connect: wire.Connect{Epoch: 1, Session: wire.NoSession, Offer: offer}}
	if err := s.prepare(true); err != nil {
		t.Fatal(err)
	}
	if n, err := security.Whole(false, s.said); n != 0 || err != nil {
		t.Errorf("a part has whole messages of %d bytes: %v", n, err)
	}
	if err := s.prepare(false); err != nil {
		t.Fatal(err)
	}
	if n, err := security.Whole(false, s.said); n != len(s.said) || err != nil {
		t.Errorf("%d of %d bytes are whole: %v", n, len(s.said), err)
	}
	o, _ := testKeys(t)
	server, _, err := bareConfig(o)
	if err != nil {
		t.Fatal(err)
	}
	head, tail := wire.Fixed(s.pkt[wire.HeaderSize:][:wire.ConnectSize+len(sealedExt)])
	asked := false
	hs := security.NewTLS(server, false, security.Opening{Judge: func(said []byte) ([]byte, error) {
		asked = bytes.Equal(said, append(bytes.Clone(head), tail...))
		return nil, nil
	}})
	defer hs.Close()
	if out, err := hs.Step(s.said); err != nil || len(out) == 0 || !asked {
		t.Errorf("the server says %d bytes, and has the parameters %v: %v", len(out), asked, err)
	}
}
