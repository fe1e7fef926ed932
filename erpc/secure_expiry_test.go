package erpc_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/security/sectest"
	"github.com/userspace-rpc/erpc/transport/udp"
	"github.com/userspace-rpc/erpc/wire"
	"go.uber.org/goleak"
)

// wallClock is the time that certificates are checked by, which a test sets.
type wallClock struct{ ahead atomic.Int64 }

func (c *wallClock) now() time.Time       { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *wallClock) jump(d time.Duration) { c.ahead.Add(int64(d)) }

// TestExpiry: a certificate counts when two endpoints meet. When it expires, or the clock jumps,
// sessions go on and their endpoints open more; new endpoints are refused, with a ticket too. Once
// the clock is right again all is as before.
func TestExpiry(t *testing.T) {
	ca := sectest.NewCA("test")
	var clock wallClock
	server := ca.Config("127.0.0.1", "")
	server.Time = clock.now
	addr := secureServer(t, erpc.Config{TLS: server})
	client := ca.Config("", "spiffe://test/client")
	client.Certificates[0] = ca.Issue("", "spiffe://test/client", time.Now().Add(24*time.Hour))
	client.Time = clock.now
	client.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	cfg := erpc.Config{TLS: client}
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	loop, err := erpc.NewLoop(tr, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer loop.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	call := func(what string, c *erpc.Client) {
		t.Helper()
		_, err := c.Call(ctx, 1, []byte("x"))
		is(t, what, err, nil)
	}
	first, err := loop.Dial(ctx, addr)
	is(t, "dial", err, nil)
	call("before", first)
	for _, jump := range []time.Duration{48 * time.Hour, -100 * 365 * 24 * time.Hour} {
		clock.jump(jump)
		call("a session lives on", first)
		second, err := loop.Dial(ctx, addr)
		is(t, "one more of the same endpoints", err, nil)
		call("in it", second)
		_, err = ask(t, addr, cfg)
		var invalid x509.CertificateInvalidError
		if !errors.Is(err, erpc.ErrDenied) && !errors.As(err, &invalid) {
			t.Errorf("a new endpoint, the clock off by %v: %v", jump, err)
		}
		clock.jump(-jump)
	}
	_, err = ask(t, addr, cfg)
	is(t, "the clock is right again", err, nil)
}

// TestCloseUnderway: endpoints that close in the middle of a handshake leave no goroutine of
// crypto/tls behind.
func TestCloseUnderway(t *testing.T) {
	cfg := sectest.NewCA("test").Config("server.test", "")
	cfg.ServerName = "server.test"
	p := newErrPairOn(t, newMemNet(), erpc.Config{TLS: cfg})
	p.unknown()
	running := goleak.IgnoreCurrent()
	lost := 0
	p.send.lose = func(pkt []byte) bool { // the client's second flight
		if wire.Type(pkt[0]&15) == wire.TypeMgmt && wire.Op(pkt[1]) == wire.OpCrypto {
			lost++
			return true
		}
		return false
	}
	_, err := p.client.CreateSessionTo(p.send.addr)
	is(t, "a session", err, nil)
	p.until(func() bool { return lost > 0 })
	if goleak.Find(running) == nil {
		t.Error("there was no handshake under way")
	}
	p.close()
	if err := goleak.Find(running); err != nil {
		t.Error(err)
	}
}
