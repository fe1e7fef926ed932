package engine

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/security/sectest"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

const tlsHost = "server.test"

// tlsClient is the configuration of a client with an identity.
func tlsClient(ca *sectest.CA, id string) setup {
	c := ca.Config("", id)
	c.ServerName = tlsHost
	return setup{TLS: c}
}

// join has a client open a session with a server, and returns why it failed.
func (p *pendingRig) join(t *testing.T, cfg setup) (*Conn, error) {
	t.Helper()
	s := p.dial(t, cfg)
	for range 12 {
		p.turn(len(p.clients)-1, time.Microsecond)
	}
	if s.Err() == nil && !s.Open() {
		t.Fatal("the session is neither open nor over")
	}
	return s, s.Err()
}

// idOf returns the SPIFFE ID of a session's peer, nil if it has none.
func idOf(s *Conn) *url.URL { return SPIFFE(s.Identity().certificate()) }

// TestRotation: certificates and authorities that callbacks give change without a restart. New
// endpoints meet the new ones; sessions that are open go on.
func TestRotation(t *testing.T) {
	ca, next := sectest.NewCA("ours"), sectest.NewCA("next")
	cert, pool := ca.Issue(tlsHost, "", time.Now().Add(time.Hour)), ca.Pool
	config := &tls.Config{}
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{
			Certificates: []tls.Certificate{cert},
			ClientCAs:    pool, ClientAuth: tls.RequireAndVerifyClientCert,
		}, nil
	}
	p := &pendingRig{server: newStub(t, setup{TLS: config})}
	mine := ca.Issue("", "spiffe://test/old", time.Now().Add(time.Hour))
	client := &tls.Config{RootCAs: ca.Pool, ServerName: tlsHost}
	client.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &mine, nil
	}
	ids := map[string]int{}
	see := func() {
		clear(ids)
		for _, s := range p.server.table.byNumber {
			if s != nil {
				ids[idOf(s).Path]++
			}
		}
	}
	first, err := p.join(t, setup{TLS: client})
	if see(); err != nil || ids["/old"] != 1 {
		t.Fatal(err, ids)
	}
	cert = ca.Issue(tlsHost, "spiffe://test/server", time.Now().Add(time.Hour))
	mine = ca.Issue("", "spiffe://test/new", time.Now().Add(time.Hour))
	second, err := p.join(t, setup{TLS: client})
	if see(); err != nil || ids["/old"] != 1 || ids["/new"] != 1 {
		t.Fatal(err, ids)
	}
	if idOf(first) != nil || idOf(second) == nil {
		t.Error("the new client met the old certificate, or the old one another")
	}
	pool = next.Pool // an authority goes
	if _, err = p.join(t, setup{TLS: client}); !errors.Is(err, ErrDenied) {
		t.Errorf("a client of the old authority: %v", err)
	}
	before := p.clients[0].received
	for i := range 2000 {
		p.turn(i%2, 10*time.Millisecond)
	}
	if !first.Open() || !second.Open() {
		t.Errorf("the sessions ended: %v, %v", first.Err(), second.Err())
	}
	if n := p.clients[0].received - before; n < 5 {
		t.Errorf("%d answers to pings in ten seconds", n)
	}
}

// TestQuotasByIdentity: clients of one identity share what a server has, whatever their addresses,
// certificates and names; others do not. Without an identity the address decides.
func TestQuotasByIdentity(t *testing.T) {
	ca, other := sectest.NewCA("ours"), sectest.NewCA("theirs")
	both := ca.Config(tlsHost, "")
	both.ClientAuth, both.ClientCAs = tls.RequireAnyClientCert, nil // of any authority
	p := &pendingRig{server: newStub(t, setup{TLS: both})}
	shares := 0
	for i, c := range []struct {
		ca  *sectest.CA
		dns string
		id  string
		new bool
	}{
		{ca, "", "spiffe://test/one", true},
		{ca, "", "spiffe://test/one", false},
		{ca, "a.test", "spiffe://test/one", false}, // the ID decides
		{ca, "", "spiffe://test/two", true},
		{ca, "a.test", "", true},
		{ca, "a.test", "", false},
		{ca, "b.test", "", true},
		{other, "a.test", "", true}, // of another issuer
	} {
		cfg := setup{TLS: c.ca.Config(c.dns, c.id)}
		cfg.TLS.ServerName, cfg.TLS.RootCAs = tlsHost, ca.Pool
		if _, err := p.join(t, cfg); err != nil {
			t.Fatalf("client %d: %v", i, err)
		}
		if c.new {
			shares++
		}
		if n := len(p.server.quotas.byKey); n != shares {
			t.Errorf("after client %d: %d quotas, want %d", i, n, shares)
		}
	}
	shared, unnamed := &Identity{PSK: true}, &Identity{TLS: &tls.ConnectionState{}}
	if shared.quotaKey().IsValid() || unnamed.quotaKey().IsValid() {
		t.Error("a peer without a certificate has an identity")
	}
	if a := stubAddr(7); p.server.cfg.Shares.keyOf(&association{addr: a}) !=
		p.server.cfg.Shares.Key(a) {
		t.Error("a peer without an identity does not count by its address")
	}
}

// TestQuotaOfCertificate: without a SPIFFE ID the subject, each DNS name and the issuer count.
func TestQuotaOfCertificate(t *testing.T) {
	id := &url.URL{Scheme: "spiffe", Host: "test", Path: "/a"}
	web := &url.URL{Scheme: "https", Host: "test", Path: "/a"}
	seen := map[transport.Addr]int{}
	for i, c := range []struct {
		subject, issuer string
		names           []string
		uris            []*url.URL
		as              int // an earlier one with the same quota, or itself
	}{
		{"s", "i", nil, nil, 0},
		{"s", "i", nil, []*url.URL{web}, 0}, // no SPIFFE ID
		{"s", "i", []string{"a"}, nil, 2},
		{"s", "i", []string{"a", "b"}, nil, 3},
		{"s", "i", []string{"ab"}, nil, 4},
		{"s", "j", []string{"a"}, nil, 5},
		{"r", "i", []string{"a"}, nil, 6},
		{"s", "i", nil, []*url.URL{id}, 7},
		{"r", "j", []string{"b"}, []*url.URL{id}, 7},
		{"s", "i", nil, []*url.URL{id, id}, 0}, // which of them?
	} {
		cert := &x509.Certificate{
			RawSubject: []byte(c.subject), RawIssuer: []byte(c.issuer),
			DNSNames: c.names, URIs: c.uris,
		}
		known := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
		a := (&Identity{TLS: known}).quotaKey()
		if first, ok := seen[a]; ok != (c.as != i) || ok && first != c.as || !a.IsValid() {
			t.Errorf("certificate %d has the quota of %d (%v), want that of %d", i, first, ok, c.as)
		}
		if c.as == i {
			seen[a] = i
		}
	}
}

// TestOpeningFits: with mutual TLS the opening of a session fits packets of 1,452 bytes, with a
// ticket of an earlier one too: the client sends a Connect, one with the beginning of the
// handshake, one packet more of that and, sealed, the Open. A post-quantum key exchange takes two
// further packets, and no more time: the second part of its first message may come together with
// the Connect that has the first.
func TestOpeningFits(t *testing.T) {
	const mtu = 1452
	ca := sectest.NewCA("ours")
	p := &pendingRig{server: newStub(t, setup{TLS: ca.Config(tlsHost, "")})}
	p.mtu = mtu
	client := tlsClient(ca, "spiffe://test/client")
	client.TLS.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	hybrid := tlsClient(ca, "spiffe://test/client")
	hybrid.TLS.CurvePreferences = []tls.CurveID{tls.X25519MLKEM768}
	p256 := tlsClient(ca, "spiffe://test/client")
	p256.TLS.CurvePreferences = []tls.CurveID{tls.CurveP256}
	for _, c := range []struct {
		name    string
		cfg     setup
		resumed bool
		crypto  int
	}{
		{"X25519", client, false, 1}, {"with a ticket", client, true, 1},
		{"P-256", p256, false, 1}, {"hybrid", hybrid, false, 3},
	} {
		s := p.dial(t, c.cfg)
		i := len(p.clients) - 1
		seen := map[wire.Op]int{}
		p.said = func(pkt []byte) {
			op := wire.Op(pkt[1])
			if wire.IsSealed(pkt) {
				op = opSealed
			}
			if seen[op]++; len(pkt) > mtu {
				t.Errorf("%s: a packet of %d B", c.name, len(pkt))
			}
		}
		for range 6 { // nothing waits for a repetition
			p.turn(i, time.Microsecond)
		}
		if !s.Open() {
			t.Fatalf("%s: %v", c.name, s.Err())
		}
		if s.Identity().TLS.DidResume != c.resumed {
			t.Errorf("%s: resumed %v", c.name, !c.resumed)
		}
		if seen[wire.OpConnect] != 2 || seen[wire.OpCrypto] != c.crypto || seen[opSealed] != 1 {
			t.Errorf("%s: the client sent %v", c.name, seen)
		}
	}
}
