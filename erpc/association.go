package erpc

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/internal/invariants"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/security"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// association joins this endpoint and one other one. It owns all that depends on who the other is:
// keys and identity, sessions, the open bundle, liveness, and where to send. Packets name it by
// the index that their receiver chose, and whoever opens one is that association and nobody else.
//
// Without security it has no keys. Then an address and an epoch name it, and its packets are found
// by their session and token: all that such a peer can prove.
type association struct {
	keys     *security.Association // nil: nothing is sealed, or the keys are still being made
	field    uint32                // what the peer seals names it so; 0: nothing is ever sealed
	addr     transport.Addr        // where its packets go; nothing else follows from it
	epoch    uint64                // of the peer's endpoint
	loop     uint8                 // of the peer's endpoint
	opener   bool                  // this side made the keys with a server
	name     string                // opener: what the server's certificate had to say
	of       *credentials          // opener: what the keys were made with
	state    *ConnectionState      // who the peer is; nil without keys
	quotaKey transport.Addr        // what its sessions count for; zero for its address
	pending  *pendingHandshake     // server: until the keys are there
	// Opener: the handshake, in which tickets follow; nil with shared keys.
	ticket *stream
	// When this side changes its keys, if it is the opener; zero before the first look.
	updateAt  monotime.Time
	renewAt   monotime.Time // when its keys may be said again to be lost or worn
	sent      *sentRing     // opener: what left last, for what the network quotes
	migration *migration    // while the peer may have another address; nil else

	watch      session.Watch
	link       session.Link // for small packets
	sessions   []*Session
	clients    int            // of sessions: those that this side opened
	turn       int            // which session asks next
	suspect    int            // how many sessions are still to ask whether the peer knows them
	at         int            // place in assocTable.watched
	idleTill   monotime.Time  // without sessions: when it is forgotten; else 0
	idleOf     transport.Addr // the quota for which it counts until then
	deathProbe *deathProbe    // nil without one
	quotes     quotes         // of its series so far
	narrowAt   monotime.Time  // when it may next be said that its path carries less
}

// Bounds of associations without sessions. A dial within lingerFor needs no handshake. One quota
// has a quarter at most: its own are forgotten before those of others.
const (
	lingerFor = 10 * time.Second
	maxIdle   = 4096
)

// Indices have 16 bits of place and 8 of generation, which is never 0 and never all ones: a field
// is never 0, and never wire.NoSession. Places are numbered from a random one on, and begin with a
// random generation, so that another incarnation of the endpoint says that it does not know an
// index of before: if it had the same one, the peer would only find silence.
const (
	placeBits = 16
	maxPlaces = 1 << placeBits
	lastGen   = 254
	// restPlaces is how many free places wait, as long as there are others.
	restPlaces = 256
)

// assocTable holds the associations of an endpoint.
type assocTable struct {
	loop      uint8                             // of the endpoint
	rng       *rand.Rand                        // of the endpoint
	places    []*association                    // by the place in the index, see placeOf; nil is free
	first     uint32                            // that a field has in place of place 0
	gens      []uint8                           // the generation that each place had last
	free      []uint16                          // the place free for longest first
	plain     map[peerKey]*association          // those without keys
	dialled   map[leaderKey]*association        // those that this side has opened
	byAddr    map[transport.Addr][]*association // for ICMP errors, which only cause questions
	watched   []*association                    // those with sessions
	idle      []*association                    // those without, the one that is forgotten first first
	idleOf    map[transport.Addr]int            // how many of them each quota has
	shares    *Shares                           // of the endpoint
	overQuota bool                              // one of them has too many
	probes    []*deathProbe

	latest   time.Duration // of a peer's silence until it is asked
	quiet    time.Duration // the same in this sweep
	pinged   bool          // a sweep has pinged, and the loop has not slept since
	nextBeat monotime.Time // when those are asked together that are nearly due
	swept    monotime.Time // the last sweep
	// The incarnation of each loop that opened sessions in the clear last, and how many it has.
	epochs map[loopAddr]*peerEpoch
}

func newAssocTable(rng *rand.Rand, shares *Shares) assocTable {
	return assocTable{
		rng:     rng,
		shares:  shares,
		idleOf:  make(map[transport.Addr]int),
		plain:   make(map[peerKey]*association),
		dialled: make(map[leaderKey]*association),
		byAddr:  make(map[transport.Addr][]*association),
		epochs:  make(map[loopAddr]*peerEpoch),
	}
}

// peerKey names an endpoint without keys during the life of its process.
type peerKey struct {
	addr  transport.Addr
	epoch uint64
}

// reserve gives an association its index, before its handshake begins. It reports false if none is
// free.
func (t *assocTable) reserve(a *association) bool {
	place := len(t.places)
	switch {
	case len(t.free) > restPlaces || place == maxPlaces && len(t.free) > 0:
		place = int(t.free[0])
		t.free = t.free[1:]
	case place == maxPlaces:
		return false
	default:
		if place == 0 {
			t.first = t.rng.Uint32N(maxPlaces)
		}
		t.places, t.gens = append(t.places, nil), append(t.gens, uint8(t.rng.Uint32N(lastGen)))
	}
	t.gens[place] = t.gens[place]%lastGen + 1
	t.places[place] = a
	a.field = wire.FirstOf(t.loop) | uint32(t.gens[place])<<placeBits |
		(uint32(place)+t.first)%maxPlaces
	return true
}

// placeOf returns the place that a field names.
func (t *assocTable) placeOf(field uint32) int { return int((field - t.first) % maxPlaces) }

// find returns the association that this side has named so, nil if there is none.
func (t *assocTable) find(field uint32) *association {
	if place := t.placeOf(field); place < len(t.places) {
		if a := t.places[place]; a != nil && a.field == field {
			return a
		}
	}
	return nil
}

// release frees the index of an association.
func (t *assocTable) release(a *association) {
	if place := t.placeOf(a.field); t.find(a.field) == a {
		t.places[place] = nil
		t.free = append(t.free, uint16(place))
	}
}

// enter makes an association known that has its keys, or will never have any.
func (t *assocTable) enter(a *association, now monotime.Time) {
	a.link = session.NewLink(1 << 16)
	t.byAddr[a.addr] = append(t.byAddr[a.addr], a)
	if a.keys != nil {
		t.rest(a, now)
	}
}

// plainFor returns the association with an endpoint in the clear.
func (t *assocTable) plainFor(key peerKey, loop uint8) *association {
	a := t.plain[key]
	if a == nil {
		a = &association{addr: key.addr, epoch: key.epoch, loop: loop}
		t.plain[key] = a
		t.enter(a, 0)
	}
	return a
}

// rest notes that an association has no session.
func (t *assocTable) rest(a *association, now monotime.Time) {
	a.idleTill, a.idleOf = now.Add(lingerFor), t.shares.keyOf(a)
	t.idle = append(t.idle, a)
	if t.idleOf[a.idleOf]++; t.idleOf[a.idleOf] > maxIdle/quotaDivisor {
		t.overQuota = true
	}
}

// rise undoes rest, if there was one.
func (t *assocTable) rise(a *association) {
	switch i := slices.Index(t.idle, a); {
	case a.idleTill == 0:
		return
	case i == 0:
		t.idle[0] = nil
		t.idle = t.idle[1:]
	default:
		t.idle = slices.Delete(t.idle, i, i+1)
	}
	a.idleTill = 0
	if t.idleOf[a.idleOf]--; t.idleOf[a.idleOf] == 0 {
		delete(t.idleOf, a.idleOf)
	}
}

// expireAssocs forgets associations that have had no session for long, and the oldest ones of
// quotas that have too many. Sessions that are about to open on one begin anew.
func (e *engine) expireAssocs() {
	t := &e.assocs
	for i := 0; t.overQuota && i < len(t.idle); {
		if a := t.idle[i]; t.idleOf[a.idleOf] > maxIdle/quotaDivisor {
			e.forgetIdle(a)
		} else {
			i++
		}
	}
	t.overQuota = false
	for len(t.idle) > 0 && (t.idle[0].idleTill <= e.in.Now || len(t.idle) > maxIdle) {
		e.forgetIdle(t.idle[0])
	}
}

// forgetIdle forgets an association without sessions.
func (e *engine) forgetIdle(a *association) {
	if a.opener {
		e.distrust(a.field)
	}
	e.assocs.drop(a)
}

// drop forgets an association without sessions.
func (t *assocTable) drop(a *association) {
	t.rise(a)
	t.release(a)
	t.leaveAddr(a)
	if key := (peerKey{a.addr, a.epoch}); t.plain[key] == a {
		delete(t.plain, key)
	}
	if key := a.leaderKey(); t.dialled[key] == a {
		delete(t.dialled, key)
	}
	if a.ticket != nil {
		a.ticket.close()
	}
}

// leaveAddr takes an association from those at its address.
func (t *assocTable) leaveAddr(a *association) {
	list := t.byAddr[a.addr]
	if i := slices.Index(list, a); i >= 0 {
		list = slices.Delete(list, i, i+1)
	}
	if len(list) == 0 {
		delete(t.byAddr, a.addr)
	} else {
		t.byAddr[a.addr] = list
	}
}

// leaderKey returns the key by which those that dial find an opener's association.
func (a *association) leaderKey() leaderKey { return leaderKey{a.addr, a.epoch, a.name, a.of} }

// join notes an open session of an association.
func (t *assocTable) join(
	s *Session, a *association, params *session.Params, now monotime.Time,
) {
	if len(a.sessions) == 0 {
		t.rise(a)
		a.at = len(t.watched)
		t.watched = append(t.watched, a)
	}
	a.watch.Heard(now)
	if params.Bundles {
		a.link.Limit(params.PerPacket + wire.HeaderSize)
		s.end.SetLink(&a.link)
	}
	s.assoc, s.identity, s.listed = a, a.state, int32(len(a.sessions))
	s.end.Via = a.field
	a.sessions = append(a.sessions, s)
	if s.cl != nil {
		a.clients++
	}
	if invariants.Enabled {
		t.check()
	}
}

// leave undoes join, if there was one.
func (t *assocTable) leave(s *Session, now monotime.Time) {
	a := s.assoc
	if a == nil {
		return
	}
	last := a.sessions[len(a.sessions)-1]
	a.sessions[s.listed] = last
	last.listed = s.listed
	a.sessions[len(a.sessions)-1] = nil
	a.sessions = a.sessions[:len(a.sessions)-1]
	s.assoc = nil
	if s.cl != nil {
		a.clients--
	}
	if len(a.sessions) == 0 {
		end := t.watched[len(t.watched)-1]
		t.watched[a.at] = end
		end.at = a.at
		t.watched[len(t.watched)-1] = nil
		t.watched = t.watched[:len(t.watched)-1]
		a.suspect = 0
		if a.keys != nil {
			t.rest(a, now)
		} else {
			t.drop(a)
		}
	}
	if invariants.Enabled {
		t.check()
	}
}

// check panics if an association or a session is not where it says.
func (t *assocTable) check() {
	for place, a := range t.places {
		if a != nil && (t.placeOf(a.field) != place || t.find(a.field) != a) {
			panic("erpc: an association is not in its place")
		}
	}
	for i, a := range t.watched {
		if a.at != i || len(a.sessions) == 0 || a.field != 0 && t.find(a.field) != a {
			panic("erpc: a watched association is not in its place")
		}
		if !slices.Contains(t.byAddr[a.addr], a) {
			panic("erpc: an association is not at its address")
		}
		clients := 0
		for j, s := range a.sessions {
			if s.assoc != a || int(s.listed) != j || s.end.Via != a.field {
				panic("erpc: a session is not in its place at its association")
			}
			if s.cl != nil {
				clients++
			}
		}
		if clients != a.clients {
			panic("erpc: the client sessions of an association were miscounted")
		}
	}
}
