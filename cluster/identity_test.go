package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/security/sectest"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// sealed runs a server with a certificate for 127.0.0.1 and an ID, and returns its address.
func sealed(t *testing.T, ca *sectest.CA, id string) string {
	t.Helper()
	cfg := ca.Config("127.0.0.1", id)
	cfg.ClientCAs = nil
	return answering(t, erpc.Config{TLS: cfg},
		func(context.Context, []byte) ([]byte, error) { return []byte(id), nil })
}

// TestIdentity: a client has sessions with servers that are who their entries say, and with no
// others, also if a stranger writes entries.
func TestIdentity(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ca := sectest.NewCA("prod")
	web, posing, billing := sealed(t, ca, "spiffe://prod/web/0"), sealed(t, ca, "spiffe://prod/web/1"),
		sealed(t, ca, "spiffe://prod/billing")
	var mu sync.Mutex
	var told []error
	s := make(script)
	r, err := NewResolver(s, Config{
		Trusts: func(id string) bool { return strings.HasPrefix(id, "spiffe://prod/web/") },
		OnProblem: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, err)
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	entries := []Entry{
		{Addr: web, Identity: "spiffe://prod/web/0"},
		{Addr: posing, Identity: "spiffe://prod/web/7"},    // it is web/1
		{Addr: billing, Identity: "spiffe://prod/billing"}, // the stranger's own, and true
	}
	for range 2 {
		s <- view(entries...)
	}
	if err := r.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	if c := r.Choice().Preferred; len(c) != 2 || len(r.View().Entries) != 2 {
		t.Errorf("the choice is %v", c)
	}
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	loop, err := erpc.NewLoop(tr, erpc.Config{Authorize: r.Authorize,
		TLS: &tls.Config{RootCAs: ca.Pool}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = loop.Close() }()
	for addr, want := range map[string]error{web: nil, posing: ErrIdentity} {
		c, err := loop.Dial(ctx, addr)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", addr, err, want)
		}
		if err == nil {
			_ = c.Close()
		}
	}
	p, err := r.Pool(ctx, erpc.PoolConfig{}, loop)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	connecting := func(s erpc.ServerStatus) bool { return s.State == erpc.ServerConnecting }
	for slices.ContainsFunc(p.Servers(), connecting) {
		if err := p.Ready(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		who, err := p.Call(ctx, 1, nil)
		if string(who) != "spiffe://prod/web/0" || err != nil {
			t.Fatalf("%q answers, %v", who, err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(told) != 1 || !errors.Is(told[0], ErrIdentity) ||
		!strings.Contains(told[0].Error(), billing) {
		t.Errorf("told %v, want the entry of %s once", told, billing)
	}
}

// TestIdentityOf: whom Authorize refuses without a certificate, and the identity of an entry that
// has none.
func TestIdentityOf(t *testing.T) {
	s := make(script)
	r, err := NewResolver(s, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	mine, key := erpc.ConnectionState{UID: 1000}, erpc.ConnectionState{UID: -1, PSK: true}
	for _, tt := range []struct {
		what   string
		peer   erpc.ConnectionState
		server bool
		want   error
	}{
		{"a client with a shared key", key, false, ErrIdentity},
		{"a server with a shared key", key, true, ErrIdentity},
		{"a client of this user", mine, false, ErrIdentity},
		{"a server of this user", mine, true, nil},
	} {
		tt.peer.Client = tt.server
		if err := r.Authorize(t.Context(), tt.peer); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.what, err, tt.want)
		}
	}
	for addr, want := range map[string]string{"10.0.0.1:1": "10.0.0.1", "web.example:1": "web.example",
		"[fd00::1]:1": "fd00::1"} {
		e := Entry{Addr: addr}
		if got := e.identity(); got != want {
			t.Errorf("%s is %q", addr, got)
		}
	}
}
