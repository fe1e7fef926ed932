package cctest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/cc"
)

// Bottleneck is a model of sessions that share one link with an unbounded FIFO queue.
// Sessions pace packets of one size, with at most Credits unanswered; each answer
// comes BaseRTT after its packet left the queue. As real sessions do, they tell their
// controllers no answer that the bypass limit spares them. The model counts packets
// and is deterministic: it has its own time and its own random numbers.
//
// Set the fields, call [Bottleneck.Add], then [Bottleneck.Run] once, then measure.
type Bottleneck struct {
	Link       float64       // bytes per second
	PacketSize int           // bytes
	BaseRTT    time.Duration // round trip of the idle path
	Jitter     time.Duration // each round trip is measured up to this much too long
	Credits    int           // unanswered packets of a session; 0 means no limit
	Marking    RED           // congestion marks; none by default
	Warm       cc.Time       // measurement begins then
	End        cc.Time       // and ends then

	sessions []modelSession
	answers  []answer // on their way, in order
	free     cc.Time  // when the link is free
	rng      *rand.Rand
	delays   []time.Duration // time in the queue of each measured packet
	bytes    int             // measured
	err      error           // a rate that nobody can keep to; it ends the run
}

// RED says how a queue marks packets (Floyd and Jacobson, 1993, on the queue as it
// is instead of its average, as DCQCN's switches do). A packet that finds more than
// KMin bytes in the queue is marked with a probability that rises to PMax at KMax
// bytes; with more, always. The zero value marks nothing.
type RED struct {
	KMin, KMax float64 // bytes
	PMax       float64
}

type modelSession struct {
	c        cc.Controller
	rate     float64 // bytes per second
	bypass   time.Duration
	next     cc.Time // when the pacer lets the next packet go
	inFlight int
	bytes    int // measured
}

type answer struct {
	at, sent cc.Time
	session  int
	marked   bool
}

// Testbed returns a bottleneck of 25 Gbit/s with an idle round trip of 6 us and packets
// of 1000 bytes, without marks. Sessions have 32 credits, as a real session's default.
func Testbed() *Bottleneck {
	return &Bottleneck{Link: 25e9 / 8, PacketSize: 1000, BaseRTT: 6 * time.Microsecond, Credits: 32}
}

// Add adds n sessions of a that begin at time start, one gap after another. The controllers
// that a.New makes must be at rate, bytes per second.
func (b *Bottleneck) Add(a cc.Algorithm, n int, rate float64, start cc.Time, gap time.Duration) {
	for i := range n {
		b.sessions = append(b.sessions, modelSession{c: a.New(b.Link), rate: rate, bypass: a.Bypass,
			next: start.Add(time.Duration(i) * gap)})
	}
}

// Run runs the model from time 0 to the end.
func (b *Bottleneck) Run() {
	b.rng = rand.New(rand.NewPCG(1, 2))
	for b.err == nil {
		sender, at := b.nextSender()
		if len(b.answers) > 0 && b.answers[0].at <= at {
			a := b.answers[0]
			if a.at >= b.End {
				return
			}
			b.answers = b.answers[1:]
			b.receive(a)
			continue
		}
		if at >= b.End {
			return
		}
		b.send(sender, at)
	}
}

// nextSender returns the session that may send first, and when.
func (b *Bottleneck) nextSender() (session int, at cc.Time) {
	at = math.MaxInt64
	for i := range b.sessions {
		s := &b.sessions[i]
		if s.next < at && (b.Credits == 0 || s.inFlight < b.Credits) {
			session, at = i, s.next
		}
	}
	return session, at
}

func (b *Bottleneck) send(i int, now cc.Time) {
	s := &b.sessions[i]
	start := max(now, b.free)
	b.free = start.Add(b.duration(b.Link))
	b.answers = append(b.answers, answer{b.free.Add(b.BaseRTT), now, i, b.mark(start.Sub(now))})
	if now >= b.Warm {
		b.delays = append(b.delays, start.Sub(now))
	}
	if b.free >= b.Warm && b.free < b.End {
		s.bytes += b.PacketSize
		b.bytes += b.PacketSize
	}
	s.inFlight++
	s.next = now.Add(b.duration(s.rate))
}

// mark says whether a packet that will wait so long is marked.
func (b *Bottleneck) mark(wait time.Duration) bool {
	red := b.Marking
	switch queue := float64(wait) * 1e-9 * b.Link; {
	case red == RED{} || queue <= red.KMin:
		return false
	case queue > red.KMax:
		return true
	default:
		return b.rng.Float64() < red.PMax*(queue-red.KMin)/(red.KMax-red.KMin)
	}
}

// duration returns the time that a packet takes at rate.
func (b *Bottleneck) duration(rate float64) time.Duration {
	const forever = 1 << 62
	return time.Duration(min(forever, float64(b.PacketSize)/rate*1e9))
}

func (b *Bottleneck) receive(a answer) {
	s := &b.sessions[a.session]
	if b.Credits != 0 && s.inFlight == b.Credits {
		s.next = max(s.next, a.at)
	}
	s.inFlight--
	rtt := a.at.Sub(a.sent)
	if b.Jitter > 0 {
		rtt += time.Duration(b.rng.Int64N(int64(b.Jitter)))
	}
	if s.rate < b.Link || a.marked || rtt > s.bypass {
		s.rate, s.bypass = s.c.OnAck(a.at, rtt, b.BaseRTT, b.PacketSize, a.marked)
	}
	if !(s.rate > 0 && s.rate <= b.Link) {
		b.err = fmt.Errorf("session %d wants a rate of %v at %d ns", a.session, s.rate, a.at)
	}
}

// Rates returns the rates that the sessions got, bytes per second.
func (b *Bottleneck) Rates() []float64 {
	rates := make([]float64, len(b.sessions))
	for i := range rates {
		rates[i] = float64(b.sessions[i].bytes) / float64(b.End.Sub(b.Warm)) * 1e9
	}
	return rates
}

// Utilisation returns the part of the link that was used.
func (b *Bottleneck) Utilisation() float64 {
	return float64(b.bytes) / (b.Link * float64(b.End.Sub(b.Warm)) * 1e-9)
}

// Delay returns a percentile, from 0 to 100, of the packets' time in the queue.
func (b *Bottleneck) Delay(percent float64) time.Duration {
	if len(b.delays) == 0 {
		return 0
	}
	slices.Sort(b.delays)
	return b.delays[min(len(b.delays)-1, int(percent/100*float64(len(b.delays))))]
}

// Jain returns Jain's index of fairness: 1 if all are equal, 1/n if one has all
// (Jain, Chiu and Hawe, 1984).
func Jain(rates []float64) float64 {
	var sum, squares float64
	for _, r := range rates {
		sum += r
		squares += r * r
	}
	return sum * sum / (float64(len(rates)) * squares)
}
