package erpc_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/security/sectest"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// TestEachBit: no packet of a session, of whatever kind, has a bit that can change, or a byte that
// can be missing: nothing happens but that a counter goes up. With another index it draws a NOKEYS
// at most, which is no longer. After that the packet itself is taken.
func TestEachBit(t *testing.T) {
	m := newMiddle(t, erpc.Config{PSK: testPSK})
	tried := 0
	m.script(func(c caught, from transport.Addr) {
		if !sealed(c.pkt) {
			return
		}
		for bit := range 8 * len(c.pkt) {
			if at := bit / 8; at > 80 && at < len(c.pkt)-20 && at%97 != 0 {
				continue // many alike
			}
			bad := bytes.Clone(c.pkt)
			bad[bit/8] ^= 1 << (bit % 8)
			tried++
			put := func(pkt []byte) bool { return m.put(c.to, from, pkt) }
			if wire.SealedField(bad) != wire.SealedField(c.pkt) {
				put = func(pkt []byte) bool { return m.putKeyless(c.to, from, pkt) }
			}
			if put(bad) {
				t.Errorf("bit %d of % x: something happened", bit, c.pkt[:24])
			}
		}
		other := bytes.Clone(c.pkt)
		other[8] ^= 0x80 // of the index
		for n := 0; n < len(c.pkt); n += 1 + n/64 {
			if m.put(c.to, from, c.pkt[:n]) || m.putKeyless(c.to, from, other[:n]) {
				t.Errorf("%d of %d bytes: something happened", n, len(c.pkt))
			}
		}
	})
	if tried < 10_000 || m.drawn == 0 {
		t.Errorf("%d bits, %d answers", tried, m.drawn)
	}
	m.close()
}

// TestReplay: every packet of a session again at every later moment, to its receiver, back to its
// sender, and from other addresses, changes nothing. The sender may say that it does not know the
// index, by one NOKEYS that is no longer.
func TestReplay(t *testing.T) {
	m := newMiddle(t, erpc.Config{PSK: testPSK})
	elsewhere := m.send.addr
	elsewhere.Port = 900
	tried := 0
	m.script(func(_ caught, _ transport.Addr) {
		for _, old := range m.seen {
			if !sealed(old.pkt) {
				continue
			}
			sender, _ := m.end(1 - old.to)
			receiver, _ := m.end(old.to)
			tried += 3
			if m.put(old.to, sender.addr, old.pkt) {
				t.Errorf("% x again: something happened", old.pkt[:24])
			}
			if m.putKeyless(1-old.to, receiver.addr, old.pkt) {
				t.Errorf("% x back to its sender: something happened", old.pkt[:24])
			}
			if m.put(old.to, elsewhere, old.pkt) {
				t.Errorf("% x from elsewhere: something happened", old.pkt[:24])
			}
		}
	})
	if tried < 500 || m.drawn == 0 {
		t.Errorf("%d replays, %d answers", tried, m.drawn)
	}
	m.close()
}

// TestSplicing: no mixture of the packets of two associations is taken by either, also if it has
// the receiver's index. With another one it draws a NOKEYS at most, which is no longer.
func TestSplicing(t *testing.T) {
	var other []caught
	for _, seed := range []uint64{8, 9} {
		cfg := erpc.Config{PSK: testPSK}
		cfg.Simulation.Seed = seed
		m := newMiddle(t, cfg)
		tried := 0
		m.script(func(c caught, from transport.Addr) {
			for _, o := range other {
				if o.to != c.to || !sealed(c.pkt) || !sealed(o.pkt) {
					continue
				}
				for _, cut := range []int{0, 8, 12, 16, 24, len(c.pkt) - 16} {
					if cut >= len(o.pkt) {
						continue
					}
					tried++
					mixed := append(bytes.Clone(c.pkt[:cut]), o.pkt[cut:]...)
					if m.putKeyless(c.to, from, mixed) {
						t.Errorf("spliced at %d: something happened", cut)
					}
					copy(mixed[8:12], c.pkt[8:12])
					if m.put(c.to, from, mixed) {
						t.Errorf("spliced at %d, with the index: something happened", cut)
					}
				}
			}
		})
		if other = m.seen; seed == 9 && (tried < 1000 || m.drawn == 0) {
			t.Errorf("%d mixtures, %d answers", tried, m.drawn)
		}
		m.close()
	}
}

// TestBlind: ten million packets with the right addresses and session, by a sender without the
// keys, change nothing but a counter, and take no memory.
func TestBlind(t *testing.T) {
	count := 10_000_000
	if testing.Short() {
		count = 100_000
	}
	p := newErrPairOn(t, newMemNet(), erpc.Config{PSK: testPSK})
	p.tick = 1000
	is(t, "a call", p.call(tEcho, 10).err, nil)
	var real []byte
	p.send.tap = func(pkt []byte, _ transport.Addr) { real = bytes.Clone(pkt) }
	is(t, "a call", p.call(tEcho, 10).err, nil)
	p.send.tap = nil
	var before erpc.Stats
	var heap int64
	r := rand.New(rand.NewPCG(1, 1))
	pkt := make([]byte, 100)
	for sent := 0; sent < count; sent += 250 {
		if sent == count/10 {
			p.run(p.server)
			before, heap = harmless(p.server.Counters()), heapInUse()
		}
		for i := range 250 {
			n := 36 + i%64
			for at := 0; at+8 <= n; at += 8 {
				putUint64(pkt[at:], r.Uint64())
			}
			copy(pkt, real[:12]) // all that can be guessed, and often the counter
			if i&1 == 0 {
				copy(pkt[12:], real[12:16])
				pkt[12] += byte(i)
			}
			pkt[11] ^= byte(i) << 7
			p.send.put(pkt[:n], nil, &p.cend.addr)
		}
		p.run(p.server)
	}
	if h := heapInUse(); h > heap+1<<20 {
		t.Errorf("the heap grew from %d to %d bytes", heap, h)
	}
	now := p.server.Counters()
	if harmless(now) != before || now.DropSealed < uint64(count) {
		t.Errorf("%d packets were refused of %d; something else happened: %v",
			now.DropSealed, count, harmless(now) != before)
	}
	is(t, "a call", p.call(tEcho, 10).err, nil)
	p.close()
}

func putUint64(b []byte, x uint64) {
	for i := range 8 {
		b[i] = byte(x >> (8 * i))
	}
}

// TestStrippedOpening: without what makes it secure no session opens, whatever is left out of which
// packet, and how often. Checksums are made right again. From the Open on all is sealed.
func TestStrippedOpening(t *testing.T) {
	const (
		features  = wire.HeaderSize + 24 + 8 // in a Connect
		index     = wire.HeaderSize + wire.ConnectSize
		handshake = index + 8
		who       = wire.HeaderSize + wire.ChallengeSize
		cookie    = wire.HeaderSize + 8
		part      = wire.HeaderSize + wire.CryptoSize
	)
	from := func(from, to int) func(pkt []byte) {
		return func(pkt []byte) { clear(pkt[min(len(pkt), from):min(len(pkt), to)]) }
	}
	version := func(v byte) func(pkt []byte) {
		return func(pkt []byte) { pkt[who+9] = v }
	}
	for name, c := range map[string]struct {
		op    wire.Op
		strip func(pkt []byte)
		want  error
	}{
		"Connect without the feature": {wire.OpConnect, func(pkt []byte) {
			pkt[features] &^= byte(wire.FeatureSeal)
		}, erpc.ErrInsecure},
		"Connect without the index":     {wire.OpConnect, from(index, handshake), erpc.ErrDenied},
		"Connect without a handshake":   {wire.OpConnect, from(handshake, memMTU), erpc.ErrConnect},
		"Challenge without an endpoint": {wire.OpChallenge, from(who, who+9), erpc.ErrDenied},
		"Challenge without a version":   {wire.OpChallenge, version(0), erpc.ErrVersion},
		"Challenge of the last version": {wire.OpChallenge, version(2), erpc.ErrVersion},
		"Challenge of the next version": {wire.OpChallenge, version(4), erpc.ErrVersion},
		"Challenge as of a plain server": {wire.OpChallenge, func(pkt []byte) {
			pkt[4] -= 16
		}, erpc.ErrInsecure},
		"Challenge without a cookie": {wire.OpChallenge, from(cookie, who), erpc.ErrConnect},
		"Crypto without a stream":    {wire.OpCrypto, from(part, memMTU), erpc.ErrDenied},
	} {
		p := newErrPairOn(t, newMemNet(), erpc.Config{
			PSK: testPSK, Timing: erpc.Timing{ConnectTimeout: 300 * time.Millisecond},
		})
		p.unknown()
		p.tick = 50_000
		stripped := 0
		p.net.route = func(to int, pkt []byte) int {
			if pkt[0] == byte(wire.TypeMgmt)|wire.Version<<4 && wire.Op(pkt[1]) == c.op {
				token := wire.OpenMgmt(pkt)
				c.strip(pkt)
				wire.SealMgmt(pkt, token)
				stripped++
			}
			return to
		}
		s, err := p.client.CreateSessionTo(p.send.addr)
		is(t, "a session", err, nil)
		p.until(func() bool { return s.Connected() || s.Err() != nil })
		if s.Connected() || stripped == 0 || !errors.Is(s.Err(), c.want) {
			t.Errorf("%s: opened: %v, %v; %d packets", name, s.Connected(), s.Err(), stripped)
		}
		p.pass(10) // what is left of it ends
		p.close()
	}
}

// TestTypedErrors: what is wrong with a certificate can be told from the error.
func TestTypedErrors(t *testing.T) {
	ca, other := sectest.NewCA("ours"), sectest.NewCA("theirs")
	old := ca.Config("127.0.0.1", "")
	old.Certificates[0] = ca.Issue("127.0.0.1", "", time.Now().Add(-time.Hour))
	good := secureServer(t, erpc.Config{TLS: ca.Config("127.0.0.1", "")})
	expired := secureServer(t, erpc.Config{TLS: old})
	client := func(change func(c *tls.Config)) erpc.Config {
		c := ca.Config("", "spiffe://test/client")
		change(c)
		return erpc.Config{TLS: c}
	}
	_, err := ask(t, good, client(func(c *tls.Config) { c.ServerName = "elsewhere.test" }))
	var name x509.HostnameError
	if !errors.As(err, &name) || name.Host != "elsewhere.test" {
		t.Errorf("name: %v", err)
	}
	_, err = ask(t, good, client(func(c *tls.Config) { c.RootCAs = other.Pool }))
	var unknown x509.UnknownAuthorityError
	if !errors.As(err, &unknown) {
		t.Errorf("authority: %v", err)
	}
	_, err = ask(t, expired, client(func(*tls.Config) {}))
	var invalid x509.CertificateInvalidError
	if !errors.As(err, &invalid) || invalid.Reason != x509.Expired {
		t.Errorf("expired: %v", err)
	}
}

// TestJunkIsCheap: a secure server does not ask for the path to the sender of a packet that it
// cannot open, since that takes system calls, be it an address with sessions or not.
func TestJunkIsCheap(t *testing.T) {
	for _, trust := range []bool{false, true} {
		junkIsCheap(t, erpc.Config{PSK: testPSK, TrustLocal: trust})
	}
}

func junkIsCheap(t *testing.T, cfg erpc.Config) {
	m := newMiddle(t, cfg)
	var real []byte
	m.script(func(c caught, _ transport.Addr) {
		if sealed(c.pkt) && c.to == 1 {
			real = bytes.Clone(c.pkt)
		}
	})
	elsewhere := m.send.addr
	elsewhere.Port = 900
	before := m.send.paths
	if before == 0 || real == nil {
		t.Fatal("nothing was asked, or sent")
	}
	for i := range real {
		bad := bytes.Clone(real)
		bad[i] ^= 1
		m.put(1, m.cend.addr, bad)
		m.put(1, elsewhere, bad)
		m.put(1, elsewhere, real[:i])
	}
	if n := m.send.paths - before; n > 0 {
		t.Errorf("with TrustLocal %v the path was asked for %d times", cfg.TrustLocal, n)
	}
	m.close()
}

// TestTrustedStranger: a question in the clear about a session that is not known draws a Reset if
// it comes over shared memory of this user, and that is trusted; else nothing.
func TestTrustedStranger(t *testing.T) {
	for _, v := range []struct{ trust, inside, drawn bool }{
		{true, true, true}, {true, false, false}, {false, true, false},
	} {
		m := newMiddle(t, erpc.Config{PSK: testPSK, TrustLocal: v.trust})
		m.queue = nil
		from := m.net.ends[2].addr
		m.send.inside = func(a transport.Addr) bool { return v.inside && a == from }
		m.put(1, from, plainMgmt(wire.OpPing, 99, 55, wire.Alive{Session: 3, Token: 77, To: 55}))
		drawn := len(m.queue) == 1 && m.queue[0].to == 2 && wire.Op(m.queue[0].pkt[1]) == wire.OpReset
		if drawn != v.drawn || !drawn && len(m.queue) > 0 {
			t.Errorf("%+v: it drew %d packets", v, len(m.queue))
		}
		m.queue = nil
		m.close()
	}
}

// plainMgmt is a management packet about the life of a session that nobody sealed.
func plainMgmt(op wire.Op, number, token uint32, a wire.Alive) []byte {
	pkt := make([]byte, wire.HeaderSize+wire.AliveSize)
	h := wire.Header{
		Type: wire.TypeMgmt, ReqType: uint8(op), MsgSize: wire.AliveSize, Session: number,
	}
	h.Put(pkt, 0)
	a.Put(pkt[wire.HeaderSize:])
	wire.SealMgmt(pkt, token)
	return pkt
}

// TestReplayedOpening: a Connect with a proof opens one session. When that has ended the same
// packet opens none, though its cookie is still good.
func TestReplayedOpening(t *testing.T) {
	p := newErrPairOn(t, newMemNet(), erpc.Config{PSK: testPSK})
	var opening []byte
	p.send.tap = func(pkt []byte, _ transport.Addr) {
		if !sealed(pkt) && wire.Op(pkt[1]) == wire.OpConnect {
			opening = bytes.Clone(pkt) // the last one has the cookie and the proof
		}
	}
	first := p.sess
	p.connect()
	p.send.tap = nil
	_ = p.client.CloseSession(p.sess)
	p.until(func() bool { return p.server.Sessions() == 1 })
	opened := p.server.Counters().SessionsOpened
	for range 3 {
		p.send.put(opening, nil, &p.cend.addr)
		p.step()
	}
	if n := p.server.Counters().SessionsOpened - opened; n != 0 || p.server.Sessions() != 1 {
		t.Errorf("the packet opened %d sessions more", n)
	}
	p.sess = first
	is(t, "a call", p.call(tEcho, 10).err, nil)
	p.close()
}
