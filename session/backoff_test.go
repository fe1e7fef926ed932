package session

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/msgbuf"
)

// backoffRig is a rig with n small requests on their way at once.
type backoffRig struct {
	*rig
	ops []Op
}

func newBackoffRig(t *testing.T, n int) *backoffRig {
	p := rigParams
	p.Slots, p.Credits = 64, 64
	b := &backoffRig{rig: newRig(t, p, Timing{}, 0, msgbuf.Config{})}
	b.open(100 * time.Microsecond)
	b.send(n)
	return b
}

// send starts n requests at once: one bundle.
func (b *backoffRig) send(n int) {
	for range n {
		op := b.op(uint32(len(b.ops)+1), 10, 10)
		b.start(op)
		b.ops = append(b.ops, op)
	}
}

// loseAll loses the packets on their way to the server, or their answers.
func (b *backoffRig) loseAll(answers bool) {
	if !answers {
		lose(b.tb, &b.c2s, 0, len(b.c2s))
		return
	}
	in := b.c2s
	b.c2s = nil
	for _, p := range in {
		if ev := b.toServer(p); ev.Kind == EventRequest {
			if err := b.respond(ev.Slot, 10); err != nil {
				b.tb.Fatal(err)
			}
		}
	}
	lose(b.tb, &b.s2c, 0, len(b.s2c))
}

// scan looks for timeouts, as the owner does, until packets of n requests leave.
func (b *backoffRig) scan(n int) {
	b.tb.Helper()
	for end := b.now + 1000*ms; b.leaving() < n; b.now += ms / 4 {
		if b.cl.Scan(b.now, b.cout); b.now > end {
			b.tb.Fatalf("packets of %d requests left in a second, want %d", b.leaving(), n)
		}
		b.takeClient()
	}
}

// leaving returns of how many requests packets are on their way to the server.
func (b *backoffRig) leaving() int {
	nums := map[uint64]bool{}
	for _, p := range b.c2s {
		nums[p.header().ReqNum] = true
	}
	return len(nums)
}

// wait looks for timeouts for a while, often.
func (b *backoffRig) wait(d time.Duration) {
	for end := b.now.Add(d); b.now < end; b.now += ms / 8 {
		b.cl.Scan(b.now, b.cout)
		b.takeClient()
	}
}

// answer lets all packets come through.
func (b *backoffRig) answer() {
	b.tb.Helper()
	b.now += ms / 10
	b.pump(func(uint8) int { return 10 })
	if len(b.ended) != len(b.ops) {
		b.tb.Fatalf("%d of %d requests have ended", len(b.ended), len(b.ops))
	}
}

// want compares the timeout.
func (b *backoffRig) want(what string, want time.Duration) {
	b.tb.Helper()
	if got := b.cl.RoundTrips().Timeout; got != want {
		b.tb.Errorf("%d requests, %s: the timeout is %v, want %v", len(b.ops), what, got, want)
	}
}

func (b *backoffRig) end() {
	b.tb.Helper()
	b.closeClient(ErrClosed)
	for _, op := range b.ops {
		giveBack(op)
	}
	b.noLeak()
}

// TestOneLossOneBackoff: a bundle of many requests is lost, or that of their answers. The timeout
// doubles once for it, however many requests time out.
func TestOneLossOneBackoff(t *testing.T) {
	for _, n := range []int{2, 6, 60} {
		for _, answers := range []bool{false, true} {
			b := newBackoffRig(t, n)
			b.want("before", 5*ms)
			b.loseAll(answers)
			b.scan(n)
			b.answer()
			b.want("after a lost bundle", 10*ms)

			b.send(n) // no sample was taken: the next loss is another one
			b.loseAll(answers)
			b.scan(n)
			b.answer()
			b.want("after another one", 20*ms)

			b.send(n)
			b.answer()
			b.want("after a sample", 5*ms)
			b.end()
		}
	}
}

// TestProbeOfSlowHandlers: requests whose handlers take a while are not sent again, once the
// session knows the while. Nor are those on a path that has become slow.
func TestProbeOfSlowHandlers(t *testing.T) {
	for name, run := range map[string]func(b *backoffRig){
		"handler": func(b *backoffRig) {
			slot := b.toServer(b.c2s[0]).Slot
			b.c2s = nil
			b.wait(2 * ms)
			if err := b.respond(slot, 10); err != nil {
				t.Fatal(err)
			}
			b.pump(nil)
		},
		"path": func(b *backoffRig) {
			b.wait(2 * ms)
			b.pump(func(uint8) int { return 10 })
		},
	} {
		b := newBackoffRig(t, 0)
		for range 30 {
			b.send(1)
			run(b)
		}
		if again := b.cst.Retransmits; again == 0 || again > 4 {
			t.Errorf("a slow %s: %d packets went again", name, again)
		}
		b.end()
	}
}

// TestProbeOfLateAnswers: on a path on which one packet in twenty is late, few packets go again:
// the session learns that they are not lost.
func TestProbeOfLateAnswers(t *testing.T) {
	b := newBackoffRig(t, 0)
	for i := range 1000 {
		b.send(1)
		if i%20 == 19 {
			b.wait(2 * ms)
		}
		b.answer()
	}
	if again := b.cst.Retransmits; again == 0 || again > 15 {
		t.Errorf("%d packets went again, of 50 late ones", again)
	}
	b.end()
}

// TestLossOfRepeats: each time that the repeated bundle is lost too, the timeout doubles once.
func TestLossOfRepeats(t *testing.T) {
	b := newBackoffRig(t, 6)
	for _, after := range []time.Duration{5, 10, 20} {
		b.loseAll(false)
		since := b.now
		b.scan(6)
		if took := b.now.Sub(since); took < after*ms || took > (after+1)*ms {
			b.tb.Errorf("repeated after %v, want %v", took, after*ms)
		}
	}
	b.answer()
	b.want("after three losses", 40*ms)
	b.end()
}

// TestLossAcrossBundles: requests that began one after the other time out one after the other, some
// when answers to the first have come already. They were lost together, and that is one loss.
func TestLossAcrossBundles(t *testing.T) {
	b := newBackoffRig(t, 0)
	for range 12 {
		b.send(1)
		b.now += ms / 4
	}
	b.loseAll(false)
	for b.now = 0; len(b.ended) < 12 && b.now < 1000*ms; b.now += ms / 4 {
		b.cl.Scan(b.now, b.cout)
		b.takeClient()
		b.pump(func(uint8) int { return 10 })
	}
	if b.now > 20*ms {
		t.Errorf("all were answered after %v", time.Duration(b.now))
	}
	b.want("lost together", 10*ms)
	b.end()
}
