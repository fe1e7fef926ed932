package udp

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"unsafe"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
)

// peerAt returns the k-th of many peers.
func peerAt(k int) *transport.Addr {
	a := transport.AddrFrom(netip.MustParseAddrPort("[2001:db8::]:9"), 0)
	binary.BigEndian.PutUint32(a.IP[12:], uint32(k))
	return &a
}

// neighbours returns count peers of the same set as peer.
func neighbours(s *sources, peer *transport.Addr, count int) (all []*transport.Addr) {
	for k := 1 << 24; len(all) < count; k++ {
		if p := peerAt(k); *p != *peer && s.set(p) == s.set(peer) {
			all = append(all, p)
		}
	}
	return all
}

var (
	source1 = &source{ip: netip.MustParseAddr("127.0.0.1").As16()}
	source2 = &source{ip: netip.MustParseAddr("fe80::2").As16(), ifindex: 7}
)

// wantSource fails the test unless packets to peer leave from want; nil is the kernel's choice.
func wantSource(t *testing.T, s *sources, peer *transport.Addr, want *source) {
	t.Helper()
	got := s.find(peer)
	if (got == nil) != (want == nil) || got != nil && *got != *want {
		t.Fatalf("packets to %v leave from %+v, want %+v", peer, got, want)
	}
}

// TestSources: the address heard last counts, for each peer alone; what says nothing changes
// nothing.
func TestSources(t *testing.T) {
	s := newSources()
	wantSource(t, s, &transport.Addr{}, nil)
	s.learn(peerAt(1), source1)
	s.learn(peerAt(2), source2)
	wantSource(t, s, peerAt(1), source1)
	wantSource(t, s, peerAt(2), source2)
	wantSource(t, s, peerAt(3), nil)
	other := *peerAt(1)
	for _, change := range []func(){
		func() { other.Port++ }, func() { other.Scope = 3 }, func() { other.IP[0]++ },
	} {
		change()
		wantSource(t, s, &other, nil)
	}
	other = *peerAt(1)
	for other.Port = 10; other.Port < 1<<16; other.Port++ { // some are of the same set
		wantSource(t, s, &other, nil)
	}
	s.learn(peerAt(1), source2)
	wantSource(t, s, peerAt(1), source2)
	s.learn(peerAt(1), &source{})
	wantSource(t, s, peerAt(1), source2)
	s.learn(&transport.Addr{Port: 0}, source1)
	wantSource(t, s, &transport.Addr{}, nil)
	s.forget(peerAt(1))
	s.forget(peerAt(3))
	wantSource(t, s, peerAt(1), nil)
	wantSource(t, s, peerAt(2), source2)
	s.learn(peerAt(1), source1)
	wantSource(t, s, peerAt(1), source1)
}

// TestSourcesOpening: a peer that is dialed after a silence gets the kernel's choice; one that was
// heard in this epoch or the one before keeps its address, however many sessions open.
func TestSourcesOpening(t *testing.T) {
	s, peer, other := newSources(), peerAt(1), peerAt(2)
	now := monotime.Now()
	s.opening(&transport.Addr{}, now)
	s.learn(peer, source1)
	s.learn(other, source2)
	for range 100 {
		s.opening(peer, now)
	}
	wantSource(t, s, peer, source1)
	now = now.Add(100 * epochLen)
	for range 100 {
		s.opening(peer, now)
	}
	wantSource(t, s, peer, source1)
	s.learn(other, source2)
	now = now.Add(epochLen + 1)
	s.opening(peer, now)
	s.opening(other, now)
	wantSource(t, s, peer, nil)
	wantSource(t, s, other, source2)
	s.learn(peer, source1)
	wantSource(t, s, peer, source1)
}

// TestSourcesFlood: peers that are heard now and then stay known while a million others are heard
// once each.
func TestSourcesFlood(t *testing.T) {
	const honest, flood, between = 20, 1_000_000, 1000
	s := newSources()
	for k := range honest {
		for range maxHeard {
			s.learn(peerAt(k), source2)
		}
	}
	for k := range flood {
		s.learn(peerAt(honest+k), source1)
		if k%between == 0 {
			for h := range honest {
				wantSource(t, s, peerAt(h), source2)
				s.learn(peerAt(h), source2)
			}
		}
	}
}

// TestSourcesSilence: a peer that was heard often outlives 50 newcomers to its set without a
// packet, is lost in the end, and is known again with its next packet.
func TestSourcesSilence(t *testing.T) {
	for range 4 { // the seed differs
		s, peer := newSources(), peerAt(0)
		for range 3 * maxHeard {
			s.learn(peer, source2)
		}
		others := neighbours(s, peer, 150)
		for _, p := range others[:50] {
			s.learn(p, source1)
			wantSource(t, s, p, source1) // each is known when it is answered
		}
		wantSource(t, s, peer, source2)
		for _, p := range others[50:] {
			s.learn(p, source1)
		}
		wantSource(t, s, peer, nil)
		s.learn(peer, source2)
		wantSource(t, s, peer, source2)
	}
}

// TestSourcesRoom: peers that have gone make room for those that compete for it.
func TestSourcesRoom(t *testing.T) {
	s, peer := newSources(), peerAt(0)
	all := append(neighbours(s, peer, 2*sourceWays-1), peer)
	gone, alive := all[:sourceWays], all[sourceWays:]
	for range 2 * maxHeard {
		for _, p := range gone {
			s.learn(p, source1)
		}
	}
	for range 10 * maxHeard {
		for _, p := range alive {
			s.learn(p, source2)
		}
	}
	for _, p := range alive {
		wantSource(t, s, p, source2)
	}
	for _, p := range gone {
		wantSource(t, s, p, nil)
	}
}

// TestSourcesMemory: the table is as large as the doc says, and nothing is allocated for a peer.
func TestSourcesMemory(t *testing.T) {
	if n := unsafe.Sizeof(sources{}); n > 420_000 {
		t.Errorf("%d bytes for the sources of a socket", n)
	}
	s, peer, other := newSources(), *peerAt(0), *peerAt(0)
	other.Scope = 1
	allocs := testing.AllocsPerRun(100_000, func() {
		binary.BigEndian.PutUint32(peer.IP[12:], binary.BigEndian.Uint32(peer.IP[12:])+1)
		s.learn(&peer, source1)
		if s.find(&peer) == nil || s.find(&other) != nil {
			t.Fatal("not the peer that was heard")
		}
		if peer.IP[15] == 0 {
			s.forget(&peer)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations for a peer", allocs)
	}
}

// BenchmarkSources measures what a message costs: one peer, and 4096 in turn.
func BenchmarkSources(b *testing.B) {
	for _, peers := range []int{1, 4096} {
		b.Run(map[int]string{1: "one", 4096: "many"}[peers], func(b *testing.B) {
			s := newSources()
			var all []*transport.Addr
			for k := range peers {
				all = append(all, peerAt(k))
			}
			for k := range b.N {
				p := all[k%peers]
				s.learn(p, source1)
				_ = s.find(p)
			}
		})
	}
}
