package erpc_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/security/sectest"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/udp"
)

var testPSK = [][]byte{[]byte("0123456789abcdef0123456789abcdef")}

// secret is part of what fillPattern makes.
var secret = []byte("\x00\x07\x0e\x15\x1c\x23\x2a\x31\x38\x3f\x46\x4d")

// TestSealed: all that leaves is sealed and fits the path, also what is sent again and what a full
// transport keeps.
func TestSealed(t *testing.T) {
	for _, lends := range []bool{false, true} {
		net := newMemNet()
		net.lends = lends
		p := newErrPairOn(t, net, erpc.Config{Slots: 8, Credits: 16, PSK: testPSK})
		p.connect()
		tap := func(pkt []byte, _ transport.Addr) {
			if len(pkt) > memMTU || bytes.Contains(pkt, secret) {
				t.Errorf("a packet of %d bytes, % x", len(pkt), pkt[:min(len(pkt), 48)])
			}
		}
		p.cend.tap, p.send.tap = tap, tap
		p.hold = func(h erpc.ReqHandle) {
			p.net.now = p.net.now.Add(100 * time.Microsecond) // the hold time is written again
			_ = h.RespondBytes(h.Data())
		}
		dice := uint32(5)
		roll := func(n uint32) uint32 {
			dice = dice*1664525 + 1013904223
			return dice >> 8 % n
		}
		p.cend.takes = func(n int) int { return min(n, int(roll(4))) }
		p.send.takes = p.cend.takes
		lose := func([]byte) bool { return roll(20) == 0 }
		p.cend.lose, p.send.lose = lose, lose
		var calls []*result
		for i := range 60 {
			calls = append(calls, p.enqueue([]uint8{tHuge, tHold, tEcho}[i%3], 16+i*i*3, 0))
		}
		for _, res := range calls {
			p.until(func() bool { return res.ends > 0 })
			is(t, "a call", res.err, nil)
		}
		if s := p.sess.Params(); !s.Sealed {
			t.Errorf("%+v", s)
		}
		p.cend.lose, p.send.lose, p.cend.takes, p.send.takes = nil, nil, nil, nil
		p.close()
	}
}

// TestSealedAfterDrop: when a full transport has made the endpoint drop a batch, nothing of it
// counts as sealed any more.
func TestSealedAfterDrop(t *testing.T) {
	p := newErrPairOn(t, newMemNet(), erpc.Config{
		Slots: 32, Credits: 32, Burst: 1, NoBundles: true, PSK: testPSK,
	})
	p.connect()
	p.send.tap = func(pkt []byte, _ transport.Addr) {
		if bytes.Contains(pkt, secret) {
			t.Error("a packet left that is not sealed")
		}
	}
	p.cend.takes = func(int) int { return 0 }
	var calls []*result
	for range 20 {
		calls = append(calls, p.enqueue(tEcho, 100, 0))
	}
	if _, err := p.client.RunOnce(); err != nil {
		t.Fatal(err)
	}
	p.cend.takes = nil // the batch has been dropped
	calls = append(calls, p.enqueue(tEcho, 100, 0))
	for _, res := range calls {
		p.until(func() bool { return res.ends > 0 })
		is(t, "a call", res.err, nil)
	}
	if n := p.published().TxDropped; n != 20 {
		t.Errorf("%d packets were dropped", n)
	}
	p.close()
}

// TestSealedRefuses: a packet that was changed, or comes twice, is dropped before anything is
// noted: it is no sign of life.
func TestSealedRefuses(t *testing.T) {
	p := newErrPairOn(t, newMemNet(), erpc.Config{
		PSK: testPSK, Timing: erpc.Timing{FailureTimeout: time.Second},
	})
	p.connect()
	var stored [][]byte
	p.cend.tap = func(pkt []byte, _ transport.Addr) { stored = append(stored, bytes.Clone(pkt)) }
	is(t, "a call", p.call(tEcho, 10).err, nil)
	p.pass(3000)
	p.cend.tap = nil
	p.send.deaf = true
	p.tick = 1_000_000
	for end := p.net.now.Add(10 * time.Second); p.sess.Err() == nil && p.net.now < end; p.step() {
		for i, pkt := range stored {
			own := bytes.Clone(pkt)
			if i&1 == 0 {
				own[len(own)-1-i] ^= 4
			}
			p.cend.put(own, nil, &p.send.addr)
		}
	}
	is(t, "the session", p.sess.Err(), erpc.ErrPeerLost)
	if p.published().DropSealed == 0 || len(stored) == 0 {
		t.Errorf("%d packets were stored, %+v", len(stored), p.published())
	}
	p.send.deaf = false
	p.close()
}

// secureServer serves an echo over UDP, and who asked.
func secureServer(t *testing.T, cfg erpc.Config) (addr string) {
	t.Helper()
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := erpc.NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	err = srv.Handle(1, func(ctx context.Context, req []byte) ([]byte, error) {
		if st := erpc.StateFrom(ctx); st != nil && st.SPIFFE() != nil {
			return []byte(st.SPIFFE().String()), nil
		}
		return req, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = srv.Serve(tr); close(done) }()
	t.Cleanup(func() { _ = srv.Close(); <-done })
	return tr.LocalAddr().String()
}

// ask makes one call, in sessions of its own.
func ask(t *testing.T, addr string, cfg erpc.Config) (string, error) {
	t.Helper()
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, err := erpc.Dial(ctx, tr, addr, cfg)
	if err != nil {
		return "", err
	}
	defer c.Close()
	b, err := c.Call(ctx, 1, []byte("plain"))
	return string(b), err
}

// TestTLS: the two sides know each other, and what does not fit is refused with its reason.
func TestTLS(t *testing.T) {
	ca, other := sectest.NewCA("ours"), sectest.NewCA("theirs")
	const id = "spiffe://test/client"
	server, client := ca.Config("127.0.0.1", ""), ca.Config("", id)
	noBad := func(_ context.Context, s erpc.ConnectionState) error {
		if u := s.SPIFFE(); u != nil && u.Path == "/bad" {
			return errors.New("no entry")
		}
		return nil
	}
	addr := secureServer(t, erpc.Config{TLS: server, Authorize: noBad})
	for range 2 { // the second time with a ticket
		if got, err := ask(t, addr, erpc.Config{TLS: client}); err != nil || got != id {
			t.Fatalf("%q, %v", got, err)
		}
	}
	expired := ca.Config("", id)
	expired.Certificates[0] = ca.Issue("", id, time.Now().Add(-time.Hour))
	hybrid := client.Clone()
	hybrid.CurvePreferences = []tls.CurveID{tls.X25519MLKEM768}
	bad := ca.Config("", "spiffe://test/bad")
	wrongName := client.Clone()
	wrongName.ServerName = "elsewhere.test"
	foreign := ca.Config("", id)
	foreign.RootCAs = other.Pool
	elsewhere := &tls.Config{
		RootCAs: ca.Pool, Certificates: other.Config("", id).Certificates,
	}
	for name, c := range map[string]struct {
		cfg  erpc.Config
		want error
		text string
	}{
		"no security":  {erpc.Config{}, erpc.ErrInsecure, "one side only"},
		"a shared key": {erpc.Config{PSK: testPSK}, erpc.ErrDenied, ""},
		"no entry":     {erpc.Config{TLS: bad}, erpc.ErrDenied, "no entry"},
		"no cert":      {erpc.Config{TLS: &tls.Config{RootCAs: ca.Pool}}, erpc.ErrDenied, "certificate"},
		"another CA":   {erpc.Config{TLS: foreign}, erpc.ErrDenied, "unknown authority"},
		"its CA":       {erpc.Config{TLS: elsewhere}, erpc.ErrDenied, "certificate"},
		"expired":      {erpc.Config{TLS: expired}, erpc.ErrDenied, "expired"},
		"another name": {erpc.Config{TLS: wrongName}, erpc.ErrDenied, "elsewhere.test"},
		"postquantum":  {erpc.Config{TLS: hybrid}, nil, ""},
	} {
		_, err := ask(t, addr, c.cfg)
		if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPlainServer: a client that demands security gets none of a server without.
func TestPlainServer(t *testing.T) {
	addr := secureServer(t, erpc.Config{})
	if _, err := ask(t, addr, erpc.Config{PSK: testPSK}); !errors.Is(err, erpc.ErrInsecure) {
		t.Error(err)
	}
	addr = secureServer(t, erpc.Config{PSK: testPSK})
	for i, key := range []string{"another key with enough of bytes", string(testPSK[0])} {
		_, err := ask(t, addr, erpc.Config{PSK: [][]byte{[]byte(key)}})
		if i == 0 && !errors.Is(err, erpc.ErrDenied) || i == 1 && err != nil {
			t.Error(key, err)
		}
	}
}

// TestNoState: of a peer whose packets are plain nothing is known, and who asks does not panic.
func TestNoState(t *testing.T) {
	var s *erpc.ConnectionState
	if s.Certificate() != nil || s.DNSNames() != nil || s.SPIFFE() != nil {
		t.Error("nobody has an identity")
	}
}
