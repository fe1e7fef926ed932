package session

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/wire"
)

const (
	// probeWins is how many times a smaller ping must be answered, and the one of the size in question
	// of the same round not, before the path counts as one that does not carry that. What loses
	// packets of both alike does that with a probability of 1 in 4096 at most, and of 2 in a million
	// where it loses three of ten each way, since one large ping that is answered ends the probe.
	probeWins = 12
	// probeRounds is how many rounds a probe has. Then it knows nothing.
	probeRounds = 40
	probeSizes  = int(wire.MaxCut) + 1
)

// Spans between the pings of a probe.
const (
	minProbeSpan = 2 * time.Millisecond
	maxProbeSpan = 20 * time.Millisecond
	probeSpans   = 16 // in a round trip
)

const (
	// probeAhead is how many rounds may be under way of whose smallest pings none is answered: one at
	// first, one more for each answer. A path whose queue is full has no room for more, and many
	// sessions probe it at the same time.
	probeAhead = 4
	// maxProbeWait bounds the wait for such an answer, which grows by a half each time it is in vain,
	// unless the first answer has shown that the path takes longer.
	maxProbeWait = 200 * time.Millisecond
)

// PathProbe finds out whether a path carries packets of a size, in both directions (RFC 8899), and
// if not, which of the smaller ones. It asks with padded pings, which are answered in their size.
//
// A full queue loses packets too, and the large ones first. So the session is paused meanwhile, and
// the probe begins with small pings, until one is answered: then what was queued before it has
// left. Each round that follows has a ping of each size. They are sent one by one, so that no two
// travel as one train, which a router that looks at trains as a whole would drop with both. Rounds
// follow each other as they are answered.
type PathProbe struct {
	sizes  [probeSizes]int // bytes, header included: the one in question, then smaller ones
	n      int             // of them
	every  time.Duration   // between pings
	wait   time.Duration   // for the answer to the first one, or to a round
	at     monotime.Time   // of the next ping
	sent   monotime.Time   // of the last one
	open   int             // rounds whose smallest ping is not answered
	ahead  int             // as many may be
	waits  bool            // as many are
	begun  bool            // a first ping has been answered
	next   int             // place in sizes of the next ping
	round  int             // from 1
	rounds [probeRounds]probeRound
}

// probeRound is a round.
type probeRound struct {
	seq      uint64 // that of its pings, but for their place in sizes, which is in probePlace
	answered uint8  // a bit for each place in sizes
}

// probePlace masks the bits of a ping's number that say its place in the sizes.
const probePlace = uint64(wire.MaxCut)

// NewPathProbe returns a probe of the session's packet size.
func NewPathProbe(c *Client) *PathProbe {
	srtt := c.SRTT()
	p := &PathProbe{
		every: min(max(srtt/probeSpans, minProbeSpan), maxProbeSpan), wait: max(srtt, maxProbeSpan),
		ahead: 1,
	}
	p.sizes[0], p.n = c.PacketSize(), 1
	for cut := c.nextCut(c.cut); cut != 0; cut = c.nextCut(cut) {
		p.sizes[p.n] = wire.CutSizes[cut]
		p.n++
	}
	return p
}

// ProbeResult says what a PathProbe has found out.
type ProbeResult uint8

// The results.
const (
	ProbeGoesOn  ProbeResult = iota
	ProbePassed              // the path carries the size
	ProbeTooLong             // it does not; Fits says what it carries
	ProbeUnclear             // too few answers
)

// Size returns the size in question in bytes, header included.
func (p *PathProbe) Size() int { return p.sizes[0] }

// Fits returns the size in bytes of the largest ping that was answered.
func (p *PathProbe) Fits() int {
	best := p.n - 1
	for i := range p.rounds {
		for k := range best {
			if p.rounds[i].answered&(1<<k) != 0 {
				best = k
			}
		}
	}
	return p.sizes[best]
}

// Tick asks, if it is time, with one ping, whose number is random, and returns what is known. What
// one call asks leaves before the next one.
func (p *PathProbe) Tick(e *End, random func() uint64, now monotime.Time, out *Out) ProbeResult {
	if r := p.result(); r != ProbeGoesOn {
		return r
	}
	if now < p.at {
		return ProbeGoesOn
	}
	if p.waits || !p.begun && p.round > 0 {
		p.wait = max(p.wait, min(p.wait*3/2, maxProbeWait))
		p.open, p.ahead, p.waits = 0, 1, false
	}
	if p.next == 0 {
		if p.round == probeRounds {
			return ProbeUnclear
		}
		p.rounds[p.round] = probeRound{seq: random() &^ probePlace}
		p.round++
	}
	k := p.next
	p.sent, p.at = now, now.Add(p.every)
	if p.next++; p.next == p.n {
		p.next = 0
		p.open++
		if p.waits = p.open >= p.ahead; p.waits {
			p.at = now.Add(p.wait)
		}
	}
	if !p.begun {
		k, p.next, p.at = p.n-1, 0, now.Add(p.wait)
	}
	PadPing(e, p.rounds[p.round-1].seq|uint64(k), p.sizes[k], out)
	return ProbeGoesOn
}

// result looks at what has been answered.
func (p *PathProbe) result() ProbeResult {
	if !p.begun {
		return ProbeGoesOn
	}
	var wins [probeSizes]int
	for i := range p.rounds[:p.round] {
		for k := range p.n {
			if p.rounds[i].answered&(1<<k) != 0 {
				wins[k]++
			}
		}
	}
	for k := p.n - 1; k > 0; k-- {
		if wins[0] == 0 && wins[k] >= probeWins {
			return ProbeTooLong
		}
	}
	if wins[0] > 0 {
		return ProbePassed
	}
	return ProbeGoesOn
}

// PadPing sends a ping of size bytes, which is answered in its size.
func PadPing(e *End, seq uint64, size int, out *Out) {
	a := wire.Alive{Session: e.Local, Token: e.LocalToken, Seq: seq, To: e.RemoteToken}
	out.Mgmt(&e.Peer, e.Via, e.Version, wire.OpPing, e.Remote, e.RemoteToken, wire.AliveSize, size,
		a.Put)
}

// OnPong takes an answer that has come now.
func (p *PathProbe) OnPong(seq uint64, now monotime.Time) {
	for i := range p.rounds[:p.round] {
		if q := &p.rounds[i]; q.seq == seq&^probePlace {
			k := seq & probePlace
			if !p.begun {
				if k == uint64(p.n-1) { // nothing else has been asked
					p.begun, p.round, p.next, p.at = true, 0, 0, 0
					p.rounds = [probeRounds]probeRound{}
					p.wait = max(maxProbeSpan, min(2*now.Sub(p.sent), maxSample))
				}
				return
			}
			if k == uint64(p.n-1) && q.answered&(1<<k) == 0 {
				p.goOn()
			}
			q.answered |= 1 << k
			return
		}
	}
}

// goOn lets another round begin, since one is answered.
func (p *PathProbe) goOn() {
	p.open, p.ahead = max(0, p.open-1), min(p.ahead+1, probeAhead)
	if p.waits {
		p.waits, p.at = false, p.sent.Add(p.every)
	}
}
