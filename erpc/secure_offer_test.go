package erpc_test

import (
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/security/sectest"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport/udp"
	"github.com/userspace-rpc/erpc/wire"
)

// TestSmallOffers: somebody who has proved an address, and nothing else, offers packets in which
// nothing of a handshake fits. The server refuses that.
func TestSmallOffers(t *testing.T) {
	srv, err := erpc.NewServer(erpc.Config{TLS: sectest.NewCA("test").Config("127.0.0.1", "")})
	if err != nil {
		t.Fatal(err)
	}
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	addr := tr.LocalAddr()
	go func() { _ = srv.Serve(tr) }()
	t.Cleanup(func() { _ = srv.Close() })
	conn, err := net.Dial("udp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))

	// ask sends a Connect of a size or more, and returns the operation and the body of the answer.
	ask := func(c *wire.Connect, size int) (wire.Op, []byte) {
		index := binary.LittleEndian.AppendUint32(nil, 1)
		ext := wire.AppendExtension(nil, wire.Extension{Type: wire.ExtIndex, Value: index})
		n := wire.ConnectSize + len(ext)
		pkt := make([]byte, max(wire.HeaderSize+n, size))
		h := wire.Header{
			Type: wire.TypeMgmt, ReqType: uint8(wire.OpConnect), MsgSize: uint32(n),
			Session: wire.NoSession,
		}
		h.Put(pkt, 0)
		body := pkt[wire.HeaderSize:]
		c.Put(body)
		copy(body[wire.ConnectSize:], ext)
		if size > 0 {
			wire.PutChunk(body[n:], wire.ChunkCrypto, []byte{0}) // of a handshake that never goes on
		}
		wire.SealMgmt(pkt, 0)
		if _, err := conn.Write(pkt); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 2000)
		got, err := conn.Read(answer)
		if err != nil || h.Parse(answer[:got]) != nil {
			t.Fatalf("packets of %d bytes: no answer: %v", c.Offer.MTU, err)
		}
		return wire.Op(h.ReqType), answer[wire.HeaderSize:got]
	}
	for nonce, mtu := range []uint32{0, 1, 39, 40, 41, session.MinMTU - 1} {
		c := wire.Connect{Nonce: uint64(nonce), Epoch: 1, Offer: wire.Offer{
			Credits: 8, Slots: 8, MTU: mtu, MaxMessage: 1 << 20, Features: wire.FeatureSeal,
		}}
		op, body := ask(&c, 0)
		if op != wire.OpChallenge {
			t.Fatalf("packets of %d bytes: answer %v, not a Challenge", mtu, op)
		}
		var ch wire.Challenge
		ch.Parse(body)
		c.Cookie = ch.Cookie
		for range 2 {
			var r wire.Refuse
			op, body := ask(&c, 1400)
			if op != wire.OpRefuse {
				t.Fatalf("packets of %d bytes: answer %v, not a Refuse", mtu, op)
			}
			if r.Parse(body); r.Code != wire.CodeBadOffer || r.Nonce != c.Nonce {
				t.Errorf("packets of %d bytes: refused with %v", mtu, r.Code)
			}
		}
	}
}
