package erpc_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/security/sectest"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// ringed has a server and a client whose keys change, and how the last handshake was.
type ringed struct {
	t              *testing.T
	addr           string
	server, client erpc.Keyring
	cfg            erpc.Config  // of clients
	first          atomic.Value // whether the first handshake since it was "none" resumed
	tickets        ticketCache
}

// ticketCache tells of each ticket that comes.
type ticketCache struct {
	tls.ClientSessionCache
	put chan struct{}
}

func (c *ticketCache) Put(key string, s *tls.ClientSessionState) {
	c.ClientSessionCache.Put(key, s)
	if s == nil {
		return
	}
	select {
	case c.put <- struct{}{}:
	default:
	}
}

func newRinged(t *testing.T, server, client *tls.Config) *ringed {
	r := &ringed{t: t}
	r.tickets = ticketCache{tls.NewLRUClientSessionCache(8), make(chan struct{}, 1)}
	client.ClientSessionCache = &r.tickets
	r.cfg = ofItsOwn
	r.cfg.TLS, r.cfg.Keyring = client, &r.client
	r.addr = secureServer(t, erpc.Config{TLS: server, Keyring: &r.server,
		Authorize: func(_ context.Context, s erpc.ConnectionState) error {
			r.first.CompareAndSwap("none", fmt.Sprint(s.TLS.DidResume))
			return nil
		}})
	return r
}

// set changes the keys of a side.
func (r *ringed) set(k *erpc.Keyring, cfg *tls.Config) {
	r.t.Helper()
	is(r.t, "new keys", k.Set(cfg, nil), nil)
}

// meets checks that a new endpoint is served, by a ticket or not, and gets another ticket.
func (r *ringed) meets(what string, resumed bool) {
	r.t.Helper()
	r.first.Store("none")
	select {
	case <-r.tickets.put:
	default:
	}
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	is(r.t, "an endpoint", err, nil)
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	c, err := erpc.Dial(ctx, tr, r.addr, r.cfg)
	if err != nil {
		r.t.Fatalf("%s: %v", what, err)
	}
	select {
	case <-r.tickets.put:
	case <-ctx.Done():
		r.t.Errorf("%s: no ticket came", what)
	}
	is(r.t, "to close", c.Close(), nil)
	if got := r.first.Load(); got != fmt.Sprint(resumed) {
		r.t.Errorf("%s: resumed %v, want %v", what, got, resumed)
	}
}

// refused checks that no new endpoint is.
func (r *ringed) refused(what string) error {
	r.t.Helper()
	_, err := ask(r.t, r.addr, r.cfg)
	if !errors.Is(err, erpc.ErrDenied) {
		r.t.Errorf("%s: %v", what, err)
	}
	return err
}

// with returns a copy of a config with other authorities for both sides.
func with(cfg *tls.Config, pool *x509.CertPool) *tls.Config {
	c := cfg.Clone()
	c.RootCAs, c.ClientCAs = pool, pool
	return c
}

// TestTicketsOfDroppedAuthority: a ticket is worth no more than the certificates that it stands
// for, on either side, even if it outlives the change of keys.
func TestTicketsOfDroppedAuthority(t *testing.T) {
	before, after := sectest.NewCA("before"), sectest.NewCA("after")
	server, client := before.Config("127.0.0.1", ""), before.Config("127.0.0.1", "")
	fixed := func(c *tls.Config) *tls.Config {
		c.SetSessionTicketKeys([][32]byte{{1, 2, 3}})
		return c
	}
	r := newRinged(t, fixed(server), client)
	r.meets("the first time", false)
	r.meets("again", true)
	r.set(&r.server, fixed(with(server, before.Pool)))
	r.meets("new keys, of the same authority", true)

	r.set(&r.server, fixed(with(server, after.Pool)))
	r.refused("the server drops the authority")
	r.set(&r.server, fixed(with(server, before.Pool)))
	r.meets("it is back", true)

	r.set(&r.client, with(client, after.Pool))
	var unknown x509.UnknownAuthorityError
	if err := r.refused("the client drops it"); !errors.As(err, &unknown) {
		t.Error(err)
	}
	r.set(&r.client, with(client, before.Pool))
	r.meets("it is back there", false) // crypto/tls has thrown the ticket away
}

// TestTicketsOfOtherKeys: tickets do not outlive a change of keys of either side, unless the user
// says so: whoever meets from then on shows the new certificates.
func TestTicketsOfOtherKeys(t *testing.T) {
	for _, keeps := range []string{"the server's", "the client's", "neither side's", "both sides'"} {
		t.Run(keeps+" outlive it", func(t *testing.T) {
			cfg, ring := sectest.NewCA("test").Config("127.0.0.1", ""), new(erpc.Keyring)
			cfg.ServerName = "127.0.0.1"
			if keeps == "the server's" || keeps == "both sides'" {
				cfg.SetSessionTicketKeys([][32]byte{{1, 2, 3}})
			}
			if keeps == "the client's" || keeps == "both sides'" {
				cfg.ClientSessionCache = tls.NewLRUClientSessionCache(8)
			}
			p := newErrPairOn(t, newMemNet(), erpc.Config{TLS: cfg, Keyring: ring})
			p.tick = 20_000_000
			again := func(resumed bool) {
				t.Helper()
				is(t, "closing", p.client.CloseSession(p.sess), nil)
				p.until(func() bool { return p.client.Sessions()+p.server.Sessions() == 0 })
				forgotten := p.net.now.Add(20 * time.Second)
				p.until(func() bool { return p.net.now > forgotten })
				var err error
				p.sess, err = p.client.CreateSessionTo(p.send.addr)
				is(t, "a session", err, nil)
				p.until(func() bool { return p.sess.Connected() })
				if got := p.sess.State().TLS.DidResume; got != resumed {
					t.Errorf("resumed %v, want %v", got, resumed)
				}
			}
			again(true)
			is(t, "new keys", ring.Set(cfg.Clone(), nil), nil)
			again(keeps == "both sides'")
			again(true)
			p.close()
		})
	}
}

// TestKeyringMistakes: keys that cannot be used are refused, and those before stay.
func TestKeyringMistakes(t *testing.T) {
	ca := sectest.NewCA("test")
	cfg := ca.Config("127.0.0.1", "")
	r := newRinged(t, cfg, cfg)
	old := cfg.Clone()
	old.MaxVersion = tls.VersionTLS12
	key := bytes.Repeat([]byte{5}, 32)
	for _, bad := range []struct {
		tls *tls.Config
		psk [][]byte
	}{
		{nil, nil}, {cfg, [][]byte{key}}, {nil, [][]byte{}}, {nil, [][]byte{key, key[:15]}}, {old, nil},
	} {
		if err := r.server.Set(bad.tls, bad.psk); !errors.Is(err, erpc.ErrConfig) {
			t.Errorf("%v: %v", bad, err)
		}
	}
	r.meets("nothing has changed", false)
	_, err := erpc.NewNexus(erpc.Config{Keyring: new(erpc.Keyring)})
	if !errors.Is(err, erpc.ErrConfig) {
		t.Errorf("no keys to begin with: %v", err)
	}
}
