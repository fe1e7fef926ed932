package session

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/wire"
)

const (
	// probeRounds is how many packets of a size go unanswered before the path counts as one that
	// does not carry it.
	probeRounds = 6
	// probeSmall is how many small packets must be answered meanwhile: else the peer is silent.
	probeSmall = 3
)

// PathProbe finds out whether a path carries packets of a size, in both directions (RFC 8899). In
// each round it sends a small ping and, a tick later, a padded one. If small pings are answered and
// the padded ones never are, the path does not carry the size. Both at once could travel as one
// train, which a router that looks at trains as a whole would drop with both.
type PathProbe struct {
	Size   int // bytes, header included
	every  time.Duration
	at     monotime.Time // of the next round
	half   bool          // the padded ping of this round is to be sent
	round  int
	rounds [probeRounds]probeRound
	small  int // answered
	passed bool
}

// probeRound is a round.
type probeRound struct {
	seq   uint64 // of the padded ping; the small one has the next number
	small bool   // the small one was answered
}

// NewPathProbe returns a probe for packets of size bytes that asks once in each span.
func NewPathProbe(size int, every time.Duration) *PathProbe {
	return &PathProbe{Size: size, every: every}
}

// ProbeResult says what a PathProbe has found out.
type ProbeResult uint8

// The results.
const (
	ProbeGoesOn  ProbeResult = iota
	ProbePassed              // the path carries the size
	ProbeTooLong             // it does not
)

// Tick asks, if it is time, with a random number that names the round, and returns what is known.
// What one call asks leaves before the next one.
func (p *PathProbe) Tick(e *End, random func() uint64, now monotime.Time, out *Out) ProbeResult {
	switch {
	case p.passed:
		return ProbePassed
	case p.half:
		p.half = false
		p.at = now.Add(p.every)
		p.ping(e, p.rounds[(p.round-1)%probeRounds].seq, p.Size, out)
		return ProbeGoesOn
	case now < p.at:
		return ProbeGoesOn
	case p.round >= probeRounds && p.small >= probeSmall:
		return ProbeTooLong
	}
	seq := random() &^ 1
	p.rounds[p.round%probeRounds] = probeRound{seq: seq}
	p.round++
	p.half = true
	p.ping(e, seq+1, 0, out)
	return ProbeGoesOn
}

// ping sends a ping of size bytes, or a small one for 0.
func (p *PathProbe) ping(e *End, seq uint64, size int, out *Out) {
	a := wire.Alive{Session: e.Local, Token: e.LocalToken, Seq: seq, To: e.RemoteToken}
	out.Mgmt(&e.Peer, e.Via, e.Version, wire.OpPing, e.Remote, e.RemoteToken, wire.AliveSize, size,
		a.Put)
}

// OnPong takes an answer.
func (p *PathProbe) OnPong(seq uint64) {
	for i := range p.rounds[:min(p.round, probeRounds)] {
		switch q := &p.rounds[i]; {
		case q.seq == seq:
			p.passed = true
		case q.seq == seq-1 && !q.small:
			q.small = true
			p.small++
		}
	}
}
