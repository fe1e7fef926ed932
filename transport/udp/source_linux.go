package udp

import (
	"hash/maphash"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
)

const (
	sourceSets = 2048 // a power of two
	sourcePart = 64   // sets that get their memory together
	sourceWays = 4
	// maxHeard limits how much longer a peer that was heard often outlives one that was not.
	maxHeard = 15
	// epochLen is how long an epoch of sources lasts at least.
	epochLen = time.Second
)

// source is a local address that packets leave from. The zero source leaves the choice to the
// kernel.
type source struct {
	ip [16]byte // an IPv4 address is mapped
	// ifindex is the number of the interface of a link-local IPv6 address. For other addresses
	// it is 0: routes choose the interface.
	ifindex uint32
}

// sources holds, for a socket on all addresses, the local address that each peer asked last. Its
// memory is bounded: sourceSets times sourceWays peers. The doc of the package says how a peer gets
// in, and what it means to be lost.
type sources struct {
	seed maphash.Seed // secret, so that nobody can aim at a set
	last *peerSource  // the entry found last, or one of no peer
	// epoch counts sessions that opened, but not two within epochLen.
	epoch   uint16
	epochAt monotime.Time // when it began
	parts   [sourceSets / sourcePart]*[sourcePart]sourceSet
}

// sourceSet holds the peers of one hash value.
type sourceSet struct {
	ways [sourceWays]peerSource
	next uint8 // the way that the next newcomer ages
}

// peerSource is an entry. That of no peer is zero: no peer has port 0.
type peerSource struct {
	peer  transport.Addr
	src   source
	heard uint8  // messages from the peer, up to maxHeard, less what newcomers took
	epoch uint16 // of sources, when the peer was heard last
}

func newSources() *sources {
	return &sources{seed: maphash.MakeSeed(), last: new(peerSource)}
}

func (s *sources) set(peer *transport.Addr) *sourceSet {
	i := maphash.Comparable(s.seed, *peer) % sourceSets
	part := &s.parts[i/sourcePart]
	if *part == nil {
		*part = new([sourcePart]sourceSet)
	}
	return &(*part)[i%sourcePart]
}

// lookup returns the entry of peer, or nil.
func (s *sources) lookup(peer *transport.Addr) *peerSource {
	if s.last.peer == *peer {
		return s.last
	}
	set := s.set(peer)
	for i := range set.ways {
		if e := &set.ways[i]; e.peer == *peer {
			s.last = e
			return e
		}
	}
	return nil
}

// find returns where packets to dst leave from, nil if the kernel is to choose. The result is
// valid until the next learn or forget.
func (s *sources) find(dst *transport.Addr) *source {
	e := s.lookup(dst)
	if e == nil || e.src == (source{}) {
		return nil
	}
	return &e.src
}

// learn notes that a message from peer asked for the address src: the last one heard counts. The
// zero src, of a message to a group of hosts, says nothing.
func (s *sources) learn(peer *transport.Addr, src *source) {
	if peer.Port == 0 || *src == (source{}) {
		return
	}
	e := s.lookup(peer)
	if e == nil {
		e = s.set(peer).admit()
		*e = peerSource{peer: *peer}
		s.last = e
	}
	if e.src != *src {
		e.src = *src
	}
	if e.heard < maxHeard {
		e.heard++
	}
	e.epoch = s.epoch
}

// opening drops what is known of peer if it was not heard in this epoch and the one before, when a
// session with it opens. Then this side opens it, and routes may have changed: the kernel would
// accept an address that no answer reaches any more, such as that of an interface that is down. A
// peer that opens a session has just been heard.
func (s *sources) opening(peer *transport.Addr, now monotime.Time) {
	if s.epochAt == 0 || now.Sub(s.epochAt) > epochLen {
		s.epoch++
		s.epochAt = now
	}
	if e := s.lookup(peer); e != nil && s.epoch-e.epoch > 1 {
		e.src, e.heard = source{}, 0
	}
}

// admit returns the entry that a newcomer gets: that of the peer heard least. Each newcomer makes
// one way count less, in turn, so that peers that have gone make room some time.
func (t *sourceSet) admit() *peerSource {
	aged := int(t.next)
	t.next = uint8((aged + 1) % sourceWays)
	least := aged
	for i := 1; i < sourceWays; i++ {
		if k := (aged + i) % sourceWays; t.ways[k].heard < t.ways[least].heard {
			least = k
		}
	}
	if e := &t.ways[aged]; e.heard > 0 {
		e.heard--
	}
	return &t.ways[least]
}

// forget drops what is known of dst: the kernel sends to it, but not from there.
func (s *sources) forget(dst *transport.Addr) {
	if e := s.lookup(dst); e != nil {
		e.src, e.heard = source{}, 0
	}
}
