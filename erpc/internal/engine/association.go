package engine

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
	of       *Credentials          // opener: what the keys were made with
	state    *Identity             // who the peer is; nil without keys
	quotaKey transport.Addr        // what its sessions count for; zero for its address
	pending  *pendingHandshake     // server: until the keys are there
	shut     bool                  // no session opens on it any more; see Shut
	// Opener: the handshake, in which tickets follow; nil with shared keys.
	ticket *stream
	// When this side changes its keys, if it is the opener; zero before the first look.
	updateAt  monotime.Time
	renewAt   monotime.Time // when its keys may be said again to be lost or worn
	sent      *sentRing     // opener: what left last, for what the network quotes
	migration *migration    // while the peer may have another address; nil else

	watch      session.Watch
	link       session.Link // for small packets
	sessions   []*Conn
	clients    int            // of sessions: those that this side opened
	turn       int            // which session asks next
	suspect    int            // how many sessions are still to ask whether the peer knows them
	at         int            // place in assocTable.watched
	idleTill   monotime.Time  // without sessions: when it is forgotten; else 0
	idleOf     transport.Addr // the quota for which it counts until then
	deathProbe *deathProbe    // nil without one
	quotes     quotes         // of its series so far
	asked      monotime.Time  // when a session was silent last and asked why
	narrowAt   monotime.Time  // when it may next be said that its path carries less
	path       pathWatch
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

// AssocStats says how many associations an endpoint has.
type AssocStats struct {
	Open           int    // with keys and sessions
	Indices        int    // with an index: also those without sessions, or whose keys are being made
	Sealed, Forged uint64 // packets that Open ones have sealed, and could not open
}

// AssocStats looks at all associations.
func (e *Engine) AssocStats() (st AssocStats) {
	for _, a := range e.assocs.watched {
		if a.keys != nil {
			st.Open++
			st.Sealed += a.keys.Counter()
			st.Forged += a.keys.Forged()
		}
	}
	for _, a := range e.assocs.places {
		if a != nil {
			st.Indices++
		}
	}
	return st
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
func (e *Engine) expireAssocs() {
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
func (e *Engine) forgetIdle(a *association) {
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
	s *Conn, a *association, params *session.Params, now monotime.Time,
) {
	if len(a.sessions) == 0 {
		t.rise(a)
		a.at = len(t.watched)
		t.watched = append(t.watched, a)
	}
	a.watch.Heard(now)
	if params.Bundles {
		a.link.Limit(params.PerPacket + wire.HeaderSize)
		s.End.SetLink(&a.link)
	}
	s.assoc, s.identity, s.listed = a, a.state, int32(len(a.sessions))
	s.End.Via = a.field
	a.sessions = append(a.sessions, s)
	if s.Client != nil {
		a.clients++
	}
	if invariants.Enabled {
		t.check()
	}
}

// leave undoes join, if there was one.
func (t *assocTable) leave(s *Conn, now monotime.Time) {
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
	if a.path.by == s {
		a.path.by, a.path.probe = nil, nil
	}
	if s.Client != nil {
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
			if s.assoc != a || int(s.listed) != j || s.End.Via != a.field {
				panic("erpc: a session is not in its place at its association")
			}
			if s.Client != nil {
				clients++
			}
		}
		if clients != a.clients {
			panic("erpc: the client sessions of an association were miscounted")
		}
	}
}

// An endpoint that gets a sealed datagram with an index that it does not know says so, and quotes
// the datagram's first bytes: it has restarted, or has forgotten an association. It cannot prove
// that, and whoever reads the path could say it. So a client makes new keys with the server, beside
// those that it has, and goes on with both. If the server proves its identity in another
// incarnation, the sessions of the older one are asked; they end if nothing answers.

// renewEvery is how often at most a client follows the word of a server that it has no keys.
const renewEvery = time.Second

// keyless takes a sealed datagram whose index is not known here.
func (e *Engine) keyless(field uint32, p *transport.RxPacket, from *transport.Addr) {
	if e.Loop() != wire.LoopOf(field) {
		if e.astray(field, p) {
			return
		}
		e.stats.DropNoLoop++
	} else {
		e.stats.DropNoSession++
	}
	const size = wire.HeaderSize + wire.NoKeysSize
	if len(p.Data) < size || !e.handshakes.budgets.keyless.take(e.in.Now) {
		return // no answer is longer than its question
	}
	n := wire.NoKeys{Quote: [wire.QuoteSize]byte(p.Data)}
	e.Out.Mgmt(from, 0, wire.Version, wire.OpNoKeys, wire.NoSession, 0, wire.NoKeysSize, 0, n.Put)
}

// onNoKeys takes a server's word that it has no keys, if it quotes what left here.
func (e *Engine) onNoKeys(p *transport.RxPacket, body []byte) {
	var n wire.NoKeys
	n.Parse(body)
	for _, a := range e.assocs.byAddr[p.From] {
		if a.sent != nil && a.sent.take(n.Quote[:]) {
			e.renew(a)
			return
		}
	}
	if field, _ := wire.SessionOf(p.Data); e.peers == nil || wire.LoopOf(field) != 0 {
		e.stats.DropNoSession++
		return
	}
	e.passOn(p)
}

// passOn gives a packet that names no loop to all other loops of the address.
func (e *Engine) passOn(p *transport.RxPacket) {
	for loop := uint8(1); int(loop) <= e.peers.Loops(); loop++ {
		if loop == e.Loop() || e.timers.resetsLeft == 0 {
			continue
		}
		e.timers.resetsLeft--
		wire.SetLoop(p.Data, loop)
		wire.SealMgmt(p.Data, 0)
		e.astray(wire.FirstOf(loop), p)
	}
}

// renew makes new keys with a server that says that it has those of an association no more.
func (e *Engine) renew(a *association) {
	if !e.mayRenew(a) || e.distrust(a.field) || len(a.sessions) == 0 {
		return
	}
	// Another loop of the same server would say nothing of this one.
	s, err := e.dialLoop(a.addr, a.name, a.loop, e.cfg.Timing.ConnectTimeout)
	if err == nil && s.handshake != nil {
		s.hidden, s.handshake.renews = true, true
		s.Persist()
	}
}

// mayRenew reports whether anything may be done now because an association's keys seem to be lost,
// or are worn: once in renewEvery.
func (e *Engine) mayRenew(a *association) bool {
	if e.in.Now < a.renewAt || e.closing {
		return false
	}
	a.renewAt = e.in.Now.Add(renewEvery)
	return true
}

// distrust lets no session open on an association any more. Those that are about to begin anew; it
// reports whether there are any.
func (e *Engine) distrust(field uint32) (any bool) {
	if a := e.assocs.find(field); a != nil && e.assocs.dialled[a.leaderKey()] == a {
		delete(e.assocs.dialled, a.leaderKey())
	}
	for _, s := range e.handshakes.repeating {
		if s.state == connecting && s.handshake != nil && s.handshake.opening && s.End.Via == field {
			e.reconnect(s)
			any = true
		}
	}
	return any
}

// reconnect begins anew with a session that was opening on an association.
func (e *Engine) reconnect(s *Conn) {
	path, renewAt := e.port.PathTo(s.End.Peer), monotime.Time(0)
	if a := e.assocs.find(s.End.Via); a != nil {
		renewAt = a.renewAt
	}
	e.abandonHandshake(s)
	s.dialer.Restart(e.rng.Uint64(), e.in.Now)
	if !e.guardDial(s, &path) {
		e.end(s, errNoIndex, Refused)
		return
	}
	if s.handshake != nil {
		s.handshake.own.renewAt = renewAt // the next ones may be said to be lost as seldom
	}
	_ = s.dialer.Tick(e.in.Now, e.Out) // cannot time out before the next look
}

// probeOlder asks the sessions of earlier incarnations of a peer that has just proved its identity
// whether they live. It ends none by itself: what has its address may be another process, behind an
// address translator.
//
// The server may be the process that it was, and have forgotten an association, since this side was
// stopped for long; or its loop has ended. So if it was said that the keys of one are lost, another
// loop or the same incarnation is asked by the new keys after one of the sessions.
func (e *Engine) probeOlder(a *association) {
	for _, o := range e.assocs.byAddr[a.addr] {
		switch {
		case o == a || o.keys == nil || o.opener != a.opener || o.name != a.name ||
			o.quotaKey != a.quotaKey:
		case o.epoch != a.epoch && o.loop == a.loop:
			e.replaced(o)
		case a.opener && o.renewAt != 0 && len(o.sessions) > 0:
			end := o.sessions[0].End
			x := wire.Alive{Session: end.Local, Token: end.LocalToken, Seq: e.rng.Uint64(),
				To: end.RemoteToken}
			e.Out.Mgmt(&a.addr, a.field, wire.Version, wire.OpPing, end.Remote, end.RemoteToken,
				wire.AliveSize, 0, x.Put)
		}
	}
}

// replaced begins to probe an association whose peer seems to be gone. Its sessions end if nothing
// answers under its own keys.
func (e *Engine) replaced(o *association) {
	if d := e.beginDeathProbe(o); d != nil {
		if d.heard { // before
			*d = deathProbe{peer: o, began: e.in.Now, quotes: quotes{since: e.in.Now}}
		}
		d.reborn = true
	}
}

// disowns reports whether an association's peer may say that it does not know a session of another
// one: this side has opened both with the server of the same name. Others have no say.
func (e *Engine) disowns(via uint32, s *Conn) bool {
	a, o := e.assocs.find(via), s.assoc
	return a != nil && o != nil && a.opener && o.opener && a.name == o.name && a.addr == o.addr
}

// updateKey changes the keys of an association that this side has opened, if they have been in use
// for long. A peer that has not followed the last change is given time. If many packets were forged
// under the association, others open on a new one: the opener makes it, or is told to.
func (e *Engine) updateKey(a *association) {
	switch {
	case a.keys.Worn() && a.opener:
		e.renew(a)
	case a.keys.Worn():
		if !e.mayRenew(a) {
			return // it was told, and makes others
		}
		e.sayWorn(a)
	case !a.opener:
	case a.updateAt == 0:
		a.updateAt = e.in.Now.Add(e.cfg.KeyUpdate)
	case e.in.Now >= a.updateAt && a.keys.Update():
		a.updateAt = e.in.Now.Add(e.cfg.KeyUpdate)
		e.stats.KeyUpdates++
	}
}

// sayWorn tells a client to make new keys.
func (e *Engine) sayWorn(a *association) {
	var n wire.NoKeys
	e.Out.Mgmt(&a.addr, a.field, wire.Version, wire.OpNoKeys, wire.NoSession, 0, wire.NoKeysSize, 0,
		n.Put)
}
