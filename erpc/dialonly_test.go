package erpc_test

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/security/sectest"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// stranger dials an endpoint that only dials, and must read so.
func stranger(t *testing.T, what, addr string, cfg erpc.Config) {
	t.Helper()
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	is(t, "an endpoint", err, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, err := erpc.Dial(ctx, tr, addr, cfg)
	if err == nil {
		_ = c.Close()
		t.Errorf("%s: a session with a client", what)
	} else if !errors.Is(err, erpc.ErrRefused) || !strings.Contains(err.Error(), "only dials") {
		t.Errorf("%s: %v", what, err)
	}
}

// TestLoopTakesNoSessions: who dials the address of a Client is refused, with its keys or without,
// and is shown no certificate. The Client works on.
func TestLoopTakesNoSessions(t *testing.T) {
	ca := sectest.NewCA("ours")
	server := ca.Config("127.0.0.1", "")
	client := &tls.Config{RootCAs: ca.Pool, Certificates: server.Certificates}
	shown := false
	client.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		shown = true
		return client, nil
	}
	for name, cfg := range map[string]erpc.Config{
		"plain": {}, "psk": {PSK: testPSK}, "tls": {TLS: client},
	} {
		t.Run(name, func(t *testing.T) {
			serves := cfg
			if cfg.TLS != nil {
				serves.TLS = server
			}
			addr := secureServer(t, serves)
			tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
			is(t, "an endpoint", err, nil)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			l, err := erpc.NewLoop(tr, cfg)
			is(t, "a loop", err, nil)
			c, err := l.Dial(ctx, addr)
			is(t, "dial", err, nil)
			stranger(t, "in the clear", tr.LocalAddr().String(), erpc.Config{})
			stranger(t, "with a shared key", tr.LocalAddr().String(), erpc.Config{PSK: testPSK})
			stranger(t, "with TLS", tr.LocalAddr().String(),
				erpc.Config{TLS: &tls.Config{RootCAs: ca.Pool}})
			_, err = c.Call(ctx, 1, []byte("hello"))
			is(t, "a call", err, nil)
			is(t, "close", errors.Join(c.Close(), l.Close()), nil)
			if shown {
				t.Error("a handshake began")
			}
		})
	}
}

// TestDialOnlyGroup: no loop of an address takes sessions, whichever gets the packets.
func TestDialOnlyGroup(t *testing.T) {
	for _, keys := range [][][]byte{nil, testPSK} {
		g := newLoopRig(t, 3, 2, erpc.Config{DialOnly: true, PSK: keys})
		turn := 0
		g.steer(func(int) int { turn++; return turn })
		for range 6 {
			s, err := g.clients[0].CreateSessionTo(g.ends[0].addr)
			is(t, "dial", err, nil)
			g.until(func() bool { return s.Err() != nil })
			is(t, "the session", s.Err(), erpc.ErrRefused)
		}
		if n := g.sum().SessionsOpened; n != 0 {
			t.Errorf("%d sessions", n)
		}
		g.close()
	}
}

// TestDialOnlyDials: an endpoint that takes no sessions opens some, by both versions.
func TestDialOnlyDials(t *testing.T) {
	for _, keys := range [][][]byte{nil, testPSK} {
		for _, newest := range []uint8{2, 3} {
			if keys != nil && newest == 2 {
				continue
			}
			client := erpc.Speak(erpc.Config{DialOnly: true, PSK: keys}, 2, 3)
			p := newMemEnds(t, newMemNet(), client, erpc.Speak(erpc.Config{PSK: keys}, 2, newest), nil)
			p.connect()
			back, err := p.server.CreateSessionTo(p.cend.addr)
			is(t, "dial", err, nil)
			p.until(func() bool { return back.Err() != nil })
			is(t, "the way back", back.Err(), erpc.ErrRefused)
			if !p.sess.Connected() || p.client.Sessions() != 1 {
				t.Error("the session has gone")
			}
			p.close()
		}
	}
}
