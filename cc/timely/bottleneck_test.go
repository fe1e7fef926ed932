package timely

import (
	"math"
	"math/rand/v2"
	"slices"
)

// bottleneck is a model of sessions that share one link with an unbounded FIFO queue.
// Sessions pace packets of one size, with at most credits unanswered; each answer
// comes base ns after its packet left the queue. The model counts packets and is
// deterministic: it has its own time and its own random numbers.
type bottleneck struct {
	cfg     *Config
	link    float64 // bytes per second
	size    int     // bytes of a packet
	base    int64   // round trip of the idle path, ns
	jitter  int64   // each round trip is measured up to this much too long, ns
	credits int     // unanswered packets of a session; 0 means no limit
	warm    int64   // measurement begins then, ns
	end     int64   // and ends then

	sessions []modelSession
	answers  []answer // on their way, in order
	free     int64    // when the link is free, ns
	rng      *rand.Rand
	delays   []int64 // time in the queue of each measured packet, ns
	bytes    int     // measured
}

type modelSession struct {
	c        *Control
	bypass   int64
	next     int64 // when the pacer lets the next packet go, ns
	inFlight int
	bytes    int // measured
}

type answer struct {
	at, sent int64
	session  int
}

// add adds n sessions that begin at rate bytes per second, gap ns one after another.
func (b *bottleneck) add(n int, rate float64, start, gap int64) {
	for i := range n {
		c := New(b.cfg, b.link)
		c.rate = rate
		b.sessions = append(b.sessions, modelSession{c: c, next: start + int64(i)*gap,
			bypass: b.cfg.Bypass(0)})
	}
}

// run runs the model from the start to the end.
func (b *bottleneck) run() {
	b.rng = rand.New(rand.NewPCG(1, 2))
	for {
		sender, at := b.nextSender()
		if len(b.answers) > 0 && b.answers[0].at <= at {
			if b.answers[0].at >= b.end {
				return
			}
			a := b.answers[0]
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
	b.answers = append(b.answers, answer{b.free + b.base, now, i})
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
	rtt := a.at - a.sent
	if b.jitter > 0 {
		rtt += b.rng.Int64N(b.jitter)
	}
	if s.c.Rate() < b.link || rtt > s.bypass {
		_, s.bypass = s.c.OnAck(a.at, rtt, b.base, b.size, false)
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
