package dcqcn

import (
	"math"
	"math/rand/v2"
	"slices"
)

// bottleneck is a model of sessions that share one link with an unbounded FIFO queue
// which marks packets as RED does. Sessions pace packets of one size, with at most
// credits unanswered; each answer comes base ns after its packet left the queue. The
// model counts packets and is deterministic: it has its own time and its own random
// numbers.
type bottleneck struct {
	cfg     *Config
	link    float64 // bytes per second
	size    int     // bytes of a packet
	base    int64   // round trip of the idle path, ns
	credits int     // unanswered packets of a session; 0 means no limit
	warm    int64   // measurement begins then, ns
	end     int64   // and ends then

	// A packet that finds more than kMin bytes in the queue is marked with a
	// probability that rises to pMax at kMax bytes; with more, always.
	kMin, kMax, pMax float64

	sessions []modelSession
	answers  []answer // on their way, in order
	free     int64    // when the link is free, ns
	rng      *rand.Rand
	delays   []int64 // time in the queue of each measured packet, ns
	bytes    int     // measured
}

type modelSession struct {
	c        *Control
	next     int64 // when the pacer lets the next packet go, ns
	inFlight int
	bytes    int // measured
}

type answer struct {
	at, sent int64
	session  int
	marked   bool
}

// add adds n sessions that begin at rate bytes per second, gap ns one after another.
func (b *bottleneck) add(n int, rate float64, start, gap int64) {
	for i := range n {
		c := New(b.cfg, b.link)
		c.rate, c.target = rate, rate
		b.sessions = append(b.sessions, modelSession{c: c, next: start + int64(i)*gap})
	}
}

// run runs the model from the start to the end.
func (b *bottleneck) run() {
	b.rng = rand.New(rand.NewPCG(1, 2))
	for {
		sender, at := b.nextSender()
		if len(b.answers) > 0 && b.answers[0].at <= at {
			a := b.answers[0]
			if a.at >= b.end {
				return
			}
			b.answers = b.answers[1:]
			b.receive(a)
			continue
		}
		if at >= b.end {
			return
		}
		b.send(sender, at)
	}
}

// nextSender returns the session that may send first, and when.
func (b *bottleneck) nextSender() (session int, at int64) {
	at = math.MaxInt64
	for i := range b.sessions {
		s := &b.sessions[i]
		if s.next < at && (b.credits == 0 || s.inFlight < b.credits) {
			session, at = i, s.next
		}
	}
	return session, at
}

func (b *bottleneck) send(i int, now int64) {
	s := &b.sessions[i]
	start := max(now, b.free)
	b.free = start + b.duration(b.link)
	b.answers = append(b.answers, answer{b.free + b.base, now, i, b.mark(start - now)})
	if now >= b.warm {
		b.delays = append(b.delays, start-now)
	}
	if b.free >= b.warm && b.free < b.end {
		s.bytes += b.size
		b.bytes += b.size
	}
	s.inFlight++
	s.next = now + b.duration(s.c.Rate())
}

// mark says whether a packet that will wait so many ns is marked.
func (b *bottleneck) mark(wait int64) bool {
	switch queue := float64(wait) * 1e-9 * b.link; {
	case queue <= b.kMin:
		return false
	case queue > b.kMax:
		return true
	default:
		return b.rng.Float64() < b.pMax*(queue-b.kMin)/(b.kMax-b.kMin)
	}
}

// duration returns the ns that a packet takes at rate.
func (b *bottleneck) duration(rate float64) int64 {
	return int64(float64(b.size) / rate * 1e9)
}

func (b *bottleneck) receive(a answer) {
	s := &b.sessions[a.session]
	if b.credits != 0 && s.inFlight == b.credits {
		s.next = max(s.next, a.at)
	}
	s.inFlight--
	if s.c.Rate() < b.link || a.marked {
		s.c.OnAck(a.at, a.at-a.sent, b.base, b.size, a.marked)
	}
}

// rates returns the rates that the sessions got, bytes per second.
func (b *bottleneck) rates() []float64 {
	rates := make([]float64, len(b.sessions))
	for i := range rates {
		rates[i] = float64(b.sessions[i].bytes) / float64(b.end-b.warm) * 1e9
	}
	return rates
}

// utilisation returns the part of the link that was used.
func (b *bottleneck) utilisation() float64 {
	return float64(b.bytes) / (b.link * float64(b.end-b.warm) * 1e-9)
}

// delay returns a percentile of the time in the queue, ns.
func (b *bottleneck) delay(percent float64) int64 {
	slices.Sort(b.delays)
	return b.delays[min(len(b.delays)-1, int(percent/100*float64(len(b.delays))))]
}

// jain returns Jain's index of fairness: 1 if all are equal, 1/n if one has all
// (Jain, Chiu and Hawe, 1984).
func jain(rates []float64) float64 {
	var sum, squares float64
	for _, r := range rates {
		sum += r
		squares += r * r
	}
	return sum * sum / (float64(len(rates)) * squares)
}
