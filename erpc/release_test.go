package erpc_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// old makes an endpoint speak version 2 alone, as earlier releases do; later one that has left
// version 2 behind.
func old(cfg erpc.Config) erpc.Config   { return erpc.Speak(cfg, wire.OldVersion, wire.OldVersion) }
func later(cfg erpc.Config) erpc.Config { return erpc.Speak(cfg, wire.Version, wire.Version) }
func today(cfg erpc.Config) erpc.Config { return cfg }

// versions counts the packets that come to the ends of a pair, by version. It checks that answers
// say what their version wants in place of the request type.
type versions struct {
	tb     testing.TB
	counts map[byte]int
}

func watchVersions(tb testing.TB, p *memPair) *versions {
	v := &versions{tb, map[byte]int{}}
	p.cend.tap, p.send.tap = v.see, v.see
	return v
}

func (v *versions) see(pkt []byte, _ transport.Addr) {
	v.counts[pkt[0]>>4]++
	var b wire.Bundle
	var h wire.Header
	if wire.IsBundle(pkt) {
		if err := b.Parse(pkt); err != nil {
			v.tb.Errorf("a bundle: %v", err)
		}
		for _, ok := b.Next(&h); ok; _, ok = b.Next(&h) {
			v.check(&h)
		}
	} else if h.Parse(pkt) == nil {
		v.check(&h)
	}
}

func (v *versions) check(h *wire.Header) {
	answer := h.Type == wire.TypeResp || h.Type == wire.TypeCR || h.Type == wire.TypeErr ||
		h.Type == wire.TypeWait || h.Type == wire.TypePast
	if answer && (h.ReqType == 0) != (h.Version == wire.Version) {
		v.tb.Errorf("%v of version %d has %d in byte 1", h.Type, h.Version, h.ReqType)
	}
}

// TestReleases: each release's client works with each release's server, with checksums and without,
// with bundles and without, on a network that loses packets; no packet of the session has another
// version than the newest that both speak.
func TestReleases(t *testing.T) {
	for _, c := range []struct {
		name           string
		client, server func(erpc.Config) erpc.Config
		want           byte
	}{
		{"today's", today, today, wire.Version},
		{"an old server", today, old, wire.OldVersion},
		{"an old client", old, today, wire.OldVersion},
		{"a later server", today, later, wire.Version},
		{"a later client", later, today, wire.Version},
	} {
		for seed := range uint64(4) {
			t.Run(fmt.Sprint(c.name, seed), func(t *testing.T) {
				cfg := erpc.Config{Checksum: seed&1 != 0, NoBundles: seed&2 != 0, Slots: 4, Credits: 16}
				r := rand.New(rand.NewPCG(seed, 1))
				w := &traffic{tb: t, r: r, strict: true, served: make([]uint8, 1024)}
				p := newMemEnds(t, newMemNet(), c.client(cfg), c.server(cfg), w.register)
				w.p, p.tick = p, 50_000
				v := watchVersions(t, p)
				for _, e := range []*memEnd{p.cend, p.send} {
					e.lose = func([]byte) bool { return r.IntN(20) == 0 }
				}
				p.connect()
				if got := p.sess.Params().Version; got != c.want {
					t.Fatalf("the session has version %d, want %d", got, c.want)
				}
				v.counts = map[byte]int{}
				for w.done < 500 {
					w.issue()
					p.step()
				}
				p.until(func() bool { return w.flying == 0 })
				delete(v.counts, 0) // a refusal that comes late
				if n := v.counts[c.want]; n < 600 || len(v.counts) != 1 {
					t.Errorf("packets of the session by version: %v", v.counts)
				}
				p.net.now += 17e8 // a silence, so that the client asks
				p.until(func() bool { return v.counts[c.want] > 600 })
				p.close()
				if len(v.counts) != 1 {
					t.Errorf("packets of the session by version: %v", v.counts)
				}
			})
		}
	}
}

// TestLostRefusals: refusals of a version may be lost; the attempt asks again, and ends when it had
// its time if none comes.
func TestLostRefusals(t *testing.T) {
	for _, lost := range []int{1, 7, 1 << 30} {
		p := newMemEnds(t, newMemNet(), erpc.Config{}, old(erpc.Config{}), nil)
		n := 0
		p.cend.lose = func(pkt []byte) bool {
			if pkt[0]>>4 == 0 {
				n++
			}
			return pkt[0]>>4 == 0 && n <= lost
		}
		began := p.net.now
		p.tick = 1_000_000
		s, err := p.client.CreateSessionTo(p.send.addr)
		is(t, "create", err, nil)
		p.until(func() bool { return s.Connected() || s.Err() != nil })
		if took := p.net.now - began; lost < 10 {
			if !s.Connected() || s.Params().Version != wire.OldVersion || n < lost {
				t.Errorf("%d lost of %d: %v", lost, n, s.Err())
			}
		} else if !errors.Is(s.Err(), erpc.ErrConnect) || took < 2.9e9 || took > 3.2e9 {
			t.Errorf("all lost: %v after %d ns", s.Err(), took)
		}
		p.close()
	}
}

// forgeRefusals answers the first n Connects of a pair's client with forged refusals, each of which
// says in turn what spoken says.
func forgeRefusals(p *memPair, n int, spoken ...[2]uint8) (forged *int) {
	forged = new(int)
	last := uint64(0)
	p.send.tap = func(pkt []byte, from transport.Addr) {
		asked, nonce, ok := wire.AsksVersion(pkt)
		if !ok || *forged == n || nonce == last {
			return
		}
		last = nonce
		r := wire.VersionRefusal{Nonce: nonce, Asked: asked, Least: spoken[*forged%len(spoken)][0],
			Most: spoken[*forged%len(spoken)][1]}
		b := make([]byte, wire.VersionRefusalSize)
		r.Put(b)
		p.cend.put(b, nil, &p.send.addr)
		*forged++
	}
	return forged
}

// TestForgedRefusals: a reader of the network who forges refusals makes a client speak the old
// version to a server that speaks both, and costs time with one that does not; and as before an
// attempt to connect, if it does not stop.
func TestForgedRefusals(t *testing.T) {
	down, up := [2]uint8{2, 2}, [2]uint8{3, 3}
	for _, c := range []struct {
		name   string
		server func(erpc.Config) erpc.Config
		n      int
		spoken [][2]uint8
		want   uint8 // version of the session, 0 if there is none
	}{
		{"down", today, 1, [][2]uint8{down}, wire.OldVersion},
		{"down and up", today, 2, [][2]uint8{down, up}, wire.Version},
		{"down, and the server does not", later, 1, [][2]uint8{down}, wire.Version},
		{"on and on", today, 9, [][2]uint8{down, up}, 0},
		{"down again", later, 2, [][2]uint8{down, down}, wire.Version},
		{"to no version", today, 1, [][2]uint8{{4, 9}}, 0},
		{"to a range that is none", today, 1, [][2]uint8{{3, 2}}, wire.Version},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newMemEnds(t, newMemNet(), erpc.Config{}, c.server(erpc.Config{}), nil)
			forged := forgeRefusals(p, c.n, c.spoken...)
			began := p.net.now
			s, err := p.client.CreateSessionTo(p.send.addr)
			is(t, "create", err, nil)
			p.until(func() bool { return s.Connected() || s.Err() != nil })
			if *forged == 0 || p.net.now-began > 1e9 {
				t.Errorf("%d refusals were forged; it took %d ns", *forged, p.net.now-began)
			}
			if c.want == 0 {
				is(t, "the attempt", s.Err(), erpc.ErrVersion)
			} else if !s.Connected() || s.Params().Version != c.want {
				t.Errorf("%v, version %d, want %d", s.Err(), s.Params().Version, c.want)
			}
			p.close()
		})
	}
}

// TestPoolOfReleases: old and new servers serve one Pool, of an old client and of a new one, while
// each is replaced by the other release.
func TestPoolOfReleases(t *testing.T) {
	for name, client := range map[string]func(erpc.Config) erpc.Config{"old": old, "new": today} {
		t.Run(name+" client", func(t *testing.T) {
			checkLeaks(t)
			f := newFarm(t, 2, client)
			become := func(i int, release func(erpc.Config) erpc.Config) {
				f.servers[i].die()
				f.servers[i].start(release(f.cfg))
			}
			become(0, old)
			p := f.poolOf(erpc.RoundRobin)
			first := uint64(0)
			work := func() {
				f.all("a call", f.calls(through(p, patient), tEcho, first, 20), 20, nil)
				f.once(first, 20)
				first += 20
			}
			work()
			if n := f.counts(); !slices.Equal(n, []int{10, 10}) {
				t.Errorf("the servers ran %v calls", n)
			}
			for i, release := range []func(erpc.Config) erpc.Config{today, old} {
				become(i, release)
				for _, s := range f.servers {
					f.rounds(5e9) // the Pool finds out, and connects again
					f.state(p, s.name, erpc.ServerReady)
				}
				work()
			}
		})
	}
}

// TestSealedHasNoWayDown: a client that seals its packets ends its attempt where the server speaks
// version 2, says why, and never speaks it.
func TestSealedHasNoWayDown(t *testing.T) {
	sealed := erpc.Config{PSK: [][]byte{[]byte("a key of thirty-two bytes, or so")}}
	for name, server := range map[string]erpc.Config{"plain": {}, "sealed": sealed} {
		p := newMemEnds(t, newMemNet(), sealed, old(server), nil)
		v := watchVersions(t, p)
		s, err := p.client.CreateSessionTo(p.send.addr)
		is(t, "create", err, nil)
		p.until(func() bool { return s.Connected() || s.Err() != nil })
		is(t, name, s.Err(), erpc.ErrVersion)
		if text := fmt.Sprint(s.Err()); !strings.Contains(text, "speaks 2 to 2, this side 3 to 3") ||
			!strings.Contains(text, "sealed since version 3") {
			t.Errorf("%s: %s", name, text)
		}
		if v.counts[wire.OldVersion] != 0 {
			t.Errorf("%s: %v packets by version", name, v.counts)
		}
		p.close()
	}
}
