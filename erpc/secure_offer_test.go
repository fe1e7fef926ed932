package erpc_test

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/security"
	"github.com/userspace-rpc/erpc/security/sectest"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport/udp"
	"github.com/userspace-rpc/erpc/wire"
)

// applicant is somebody with a UDP socket who opens a handshake with a server by hand.
type applicant struct {
	t       *testing.T
	conn    net.Conn
	version uint8 // of its packets, and of what it hears; 0: wire.Version
}

// newApplicant starts a server, and dials it.
func newApplicant(t *testing.T, cfg erpc.Config) *applicant {
	srv, err := erpc.NewServer(cfg)
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
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	return &applicant{t: t, conn: conn}
}

// bodyOf returns the body of a Connect.
func (*applicant) bodyOf(c *wire.Connect) []byte {
	body := make([]byte, wire.ConnectSize)
	c.Put(body)
	index := binary.LittleEndian.AppendUint32(nil, 1)
	return wire.AppendExtension(body, wire.Extension{Type: wire.ExtIndex, Value: index})
}

// send sends a management packet of a size or more.
func (x *applicant) send(op wire.Op, body []byte, size int, pad func(padding []byte)) {
	pkt := make([]byte, max(wire.HeaderSize+len(body), size))
	h := wire.Header{
		Type: wire.TypeMgmt, ReqType: uint8(op), MsgSize: uint32(len(body)), Session: wire.NoSession,
		Version: x.version,
	}
	h.Put(pkt, 0)
	if n := wire.HeaderSize + copy(pkt[wire.HeaderSize:], body); n < size {
		pad(pkt[n:])
	}
	wire.SealMgmt(pkt, 0)
	if _, err := x.conn.Write(pkt); err != nil {
		x.t.Fatal(err)
	}
}

// hear returns the operation and the body of what the server says next.
func (x *applicant) hear() (wire.Op, []byte) {
	x.t.Helper()
	var h wire.Header
	answer := make([]byte, 2000)
	n, err := x.conn.Read(answer)
	if err != nil || h.Parse(answer[:n]) != nil {
		x.t.Fatal("no answer:", err)
	}
	if want := x.version; h.Version != want && (want != 0 || h.Version != wire.Version) {
		x.t.Errorf("an answer of version %d", h.Version)
	}
	return wire.Op(h.ReqType), answer[wire.HeaderSize:n]
}

// ask sends a Connect, with the beginning of a handshake if there is one, and returns the answer.
func (x *applicant) ask(c *wire.Connect, begin []byte) (wire.Op, []byte) {
	x.t.Helper()
	x.connect(c, begin)
	return x.hear()
}

// connect is ask without the answer.
func (x *applicant) connect(c *wire.Connect, begin []byte) {
	size := 0
	if begin != nil {
		size = 1400 + len(begin)
	}
	x.send(wire.OpConnect, x.bodyOf(c), size, func(padding []byte) {
		wire.PutChunk(padding, wire.ChunkCrypto, begin)
	})
}

// TestSmallOffers: somebody who has proved an address, and nothing else, offers packets in which
// nothing of a handshake fits. The server refuses that.
func TestSmallOffers(t *testing.T) {
	x := newApplicant(t, erpc.Config{TLS: sectest.NewCA("test").Config("127.0.0.1", "")})
	for nonce, mtu := range []uint32{0, 1, 39, 40, 41, session.MinMTU - 1} {
		c := wire.Connect{Nonce: uint64(nonce), Epoch: 1, Offer: wire.Offer{
			Credits: 8, Slots: 8, MTU: mtu, MaxMessage: 1 << 20, Features: wire.FeatureSeal,
		}}
		op, body := x.ask(&c, nil)
		if op != wire.OpChallenge {
			t.Fatalf("packets of %d bytes: answer %v, not a Challenge", mtu, op)
		}
		var ch wire.Challenge
		ch.Parse(body)
		c.Cookie = ch.Cookie
		for range 2 {
			var r wire.Refuse
			op, body := x.ask(&c, []byte{0})
			if op != wire.OpRefuse {
				t.Fatalf("packets of %d bytes: answer %v, not a Refuse", mtu, op)
			}
			if r.Parse(body); r.Code != wire.CodeBadOffer || r.Nonce != c.Nonce {
				t.Errorf("packets of %d bytes: refused with %v", mtu, r.Code)
			}
		}
	}
}

// TestTooMuchWhileBusy: a client says more than a message while a worker has its handshake. When
// the worker is back and there is no message, it ends, with the goroutine that crypto/tls has for
// it.
func TestTooMuchWhileBusy(t *testing.T) {
	cfg := sectest.NewCA("test").Config("127.0.0.1", "")
	begun, goOn := make(chan bool), make(chan bool)
	cfg.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		begun <- true
		<-goOn
		return nil, nil
	}
	x := newApplicant(t, erpc.Config{TLS: cfg})
	running := goleak.IgnoreCurrent()
	const times, part = 20, 1000
	for nonce := range uint64(times) {
		c := wire.Connect{Nonce: nonce, Epoch: 1, Offer: wire.Offer{
			Credits: 8, Slots: 8, MTU: 1400, MaxMessage: 1 << 20, Features: wire.FeatureSeal,
		}}
		_, body := x.ask(&c, nil)
		var ch wire.Challenge
		ch.Parse(body)
		c.Cookie = ch.Cookie
		head, tail := wire.Fixed(x.bodyOf(&c))
		ccfg := security.ClientConfig(cfg, "127.0.0.1")
		hs := security.NewTLS(ccfg, true, security.Opening{Params: append(head, tail...)})
		hello, err := hs.Step(nil)
		if err != nil {
			t.Fatal(err)
		}
		hs.Close()
		x.connect(&c, hello)
		<-begun
		for at := len(hello); at <= security.MaxStream; at += part {
			said := make([]byte, wire.CryptoSize+part)
			(&wire.Crypto{Nonce: nonce, Offset: uint32(at)}).Put(said)
			x.send(wire.OpCrypto, said, 0, nil)
		}
		goOn <- true
		for {
			if op, _ := x.hear(); op == wire.OpRefuse {
				break
			}
		}
	}
	if err := goleak.Find(running); err != nil {
		t.Error(err)
	}
}

// TestOldSealedClient: a client whose sealed packets are of version 2 fills its Connect up to their
// size, which is eight bytes less, and says no index; one between the releases says one. Both are
// told why they have no session, in packets of their version.
func TestOldSealedClient(t *testing.T) {
	for name, c := range map[string]struct {
		version  uint8
		index    bool
		overhead int
	}{
		"earlier": {wire.OldVersion, false, 20}, "between": {wire.OldVersion, true, 28},
		"without an index": {wire.Version, false, 20},
	} {
		t.Run(name, func(t *testing.T) { oldSealedClient(t, c.version, c.index, c.overhead) })
	}
}

func oldSealedClient(t *testing.T, version uint8, index bool, overhead int) {
	x := newApplicant(t, erpc.Config{TLS: sectest.NewCA("test").Config("127.0.0.1", "")})
	x.version = version
	c := wire.Connect{Nonce: 1, Epoch: 1, Offer: wire.Offer{
		Credits: 8, Slots: 8, MTU: 1400, MaxMessage: 1 << 20, Features: wire.FeatureSeal,
	}}
	connect := func(size int) {
		body := x.bodyOf(&c)
		if !index {
			body = body[:wire.ConnectSize]
		}
		x.send(wire.OpConnect, body, size, func(padding []byte) {
			wire.PutChunk(padding, wire.ChunkCrypto, []byte{0})
		})
	}
	connect(0)
	_, challenged := x.hear()
	var ch wire.Challenge
	ch.Parse(challenged)
	c.Cookie = ch.Cookie
	connect(1400 + overhead)
	op, refused := x.hear()
	if op != wire.OpRefuse || !bytes.Contains(refused, []byte("update the client")) {
		t.Errorf("answer %v %q", op, refused)
	}
}
