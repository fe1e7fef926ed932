package session

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/cc"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// fakeControl is a congestion control that does what the test says, and remembers
// what it was told.
type fakeControl struct {
	rate     float64
	bypass   int64
	made     int
	acks     []ack
	timeouts int
}

type ack struct {
	now, rtt, base int64
	bytes          int
	ce             bool
}

func (f *fakeControl) OnAck(now cc.Time, rtt, base time.Duration, bytes int, ce bool) (
	float64, time.Duration) {
	f.acks = append(f.acks, ack{int64(now), int64(rtt), int64(base), bytes, ce})
	return f.rate, time.Duration(f.bypass)
}

func (f *fakeControl) OnTimeout(cc.Time) float64 {
	f.timeouts++
	return f.rate
}

const (
	testLink   = 1e9 // bytes per second: 1 ns a byte
	testBypass = 50_000
)

func (f *fakeControl) pacing() *Pacing {
	f.bypass = testBypass
	return &Pacing{LinkRate: testLink, Slack: 500, Algorithm: cc.Algorithm{
		Name: "fake", Bypass: testBypass,
		New: func(link float64) cc.Controller { f.made++; return f },
	}}
}

// pacedRig is a rig whose sessions f controls.
func pacedRig(t *testing.T, f *fakeControl, adjust func(*Pacing)) *rig {
	p := f.pacing()
	if adjust != nil {
		adjust(p)
	}
	r := newPacedRig(t, rigParams, Timing{}, 8, msgbuf.Config{}, p)
	r.now = 1_000_000
	r.open(0)
	return r
}

// slowDown makes the session meet congestion: a small RPC with an RTT of 100 us after
// which f sets the rate.
func (r *rig) slowDown(f *fakeControl) {
	r.tb.Helper()
	op := r.op(99, 10, 10)
	if err := r.cl.Start(op, 0, r.now, r.cout); err != nil {
		r.tb.Fatal(err)
	}
	r.takeClient()
	r.now += 100_000
	r.pump(func(uint8) int { return 10 })
	giveBack(op)
	if f.made != 1 || r.cl.Congested() != (f.rate < testLink) {
		r.tb.Fatalf("%d controllers made, congested %v", f.made, r.cl.Congested())
	}
	r.now += 1_000_000
	r.ended = nil
	f.acks = nil
}

// sent is one packet of the client with the time when it left.
type sent struct {
	at monotime.Time
	h  wire.Header
}

// runPaced answers every packet of the client after delay ns and releases the session
// when it asks, until nothing is left to do. It returns what the client sent.
func (r *rig) runPaced(delay time.Duration, respSize int) (log []sent) {
	r.tb.Helper()
	type flight struct {
		at monotime.Time
		p  dgram
	}
	var back []flight
	take := func() {
		for _, p := range r.c2s {
			log = append(log, sent{r.now, p.header()})
			if ev := r.toServer(p); ev.Kind == EventRequest {
				if err := r.respond(ev.Slot, respSize); err != nil {
					r.tb.Fatal(err)
				}
			}
		}
		r.c2s = nil
		for _, p := range r.s2c {
			back = append(back, flight{r.now.Add(delay), p})
		}
		r.s2c = nil
	}
	take()
	for len(back) > 0 || r.paced {
		if len(back) > 0 && (!r.paced || back[0].at <= r.cl.PaceAt()) {
			r.now = max(r.now, back[0].at)
			p := back[0].p
			back = back[1:]
			if ev := r.toClient(p); ended(ev.Kind) {
				r.ended = append(r.ended, ev)
			}
		} else {
			r.now = max(r.now, r.cl.PaceAt())
			r.release()
		}
		take()
	}
	return log
}

// start begins a request that must not fail.
func (r *rig) start(op Op) {
	r.tb.Helper()
	if err := r.cl.Start(op, 0, r.now, r.cout); err != nil {
		r.tb.Fatal(err)
	}
	r.takeClient()
}

// TestPacing: packets of a congested session leave at its rate, in order, and RFRs at
// the rate of the response packets that they ask for. At the link's rate of 1 byte per
// ns, 100 MB/s are 10 ns a byte.
func TestPacing(t *testing.T) {
	for _, c := range []struct {
		name      string
		req, resp int
	}{{"requests", 200_000, 10}, {"RFRs", 10, 200_000}} {
		t.Run(c.name, func(t *testing.T) {
			f := &fakeControl{rate: 1e8}
			r := pacedRig(t, f, nil)
			r.slowDown(f)
			op := r.op(1, c.req, c.resp)
			r.start(op)
			begin := r.now
			log := r.runPaced(20_000, c.resp)
			if len(log) != 200 || len(r.ended) != 1 {
				t.Fatalf("%d packets, ended %v", len(log), r.ended)
			}
			for i := range log {
				if int(log[i].h.PktNum) != i {
					t.Fatalf("packet %d is number %d", i, log[i].h.PktNum)
				}
			}
			const perPacket = (1000 + wire.HeaderSize + wireOverhead) * 10
			took := log[199].at - begin
			first := log[1].at - begin // the RFRs start after a round trip
			if c.req > c.resp {
				first = 0
			}
			if want := first + 198*perPacket; took < want-2000 || took > want+perPacket+2000 {
				t.Errorf("the last packet left after %d ns, want about %d", took, want)
			}
			for i := 3; i < len(log); i++ {
				if d := log[i].at - log[i-1].at; d < perPacket-1000 || d > perPacket+1000 {
					t.Fatalf("packets %d and %d are %d ns apart, want %d", i-1, i, d, perPacket)
				}
			}
			if r.cst.PaceStalls < 190 || r.cst.Retransmits != 0 {
				t.Errorf("%d waits for the rate, %d retransmissions", r.cst.PaceStalls, r.cst.Retransmits)
			}
			giveBack(op)
			r.noLeak()
		})
	}
}

// TestLateRelease: time lost because Release came late is made up for, time in which
// nothing waited is not.
func TestLateRelease(t *testing.T) {
	f := &fakeControl{rate: 1e8}
	r := pacedRig(t, f, nil)
	r.slowDown(f)
	op := r.op(1, 30_000, 10)
	r.start(op)
	if len(r.c2s) != 1 {
		t.Fatalf("%d packets at once after idling for long, want 1", len(r.c2s))
	}
	due := r.cl.PaceAt()
	const perPacket = (1000 + wire.HeaderSize + wireOverhead) * 10
	r.now = due + 9*perPacket + perPacket/2
	r.release()
	if len(r.c2s) != 1+10 {
		t.Errorf("%d packets in all, want 11: 10 were due", len(r.c2s))
	}
	if want := due + 10*perPacket; r.cl.PaceAt() < want-20 || r.cl.PaceAt() > want+20 {
		t.Errorf("next at %d, want %d", r.cl.PaceAt(), want)
	}
	r.runPaced(1000, 10)
	giveBack(op)
	r.noLeak()
}

// TestBypasses: what an uncongested session does with the three switches.
func TestBypasses(t *testing.T) {
	for _, c := range []struct {
		name       string
		adjust     func(*Pacing)
		rtt        time.Duration
		acks, made int
		released   bool
	}{
		{"low RTT", nil, testBypass, 0, 0, false},
		{"high RTT", nil, testBypass + 1, 1, 1, false},
		{"no rate bypass", func(p *Pacing) { p.NoRateBypass = true }, 1000, 1, 1, false},
		{"no pacing bypass", func(p *Pacing) { p.NoPacingBypass = true }, 1000, 0, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fakeControl{rate: testLink}
			r := pacedRig(t, f, c.adjust)
			for range 3 {
				f.acks, f.made = nil, 0
				op := r.op(1, 10, 10)
				r.start(op)
				if waits := len(r.c2s) == 0; waits != c.released {
					t.Fatalf("the packet waits: %v, want %v", waits, c.released)
				}
				if c.released {
					if !r.paced || r.cl.PaceAt() > r.now {
						t.Fatalf("waits until %d, now %d", r.cl.PaceAt(), r.now)
					}
					r.release()
				}
				r.now = r.now.Add(c.rtt)
				r.pump(func(uint8) int { return 10 })
				if len(f.acks) != c.acks || f.made > c.made || r.cl.Congested() {
					t.Errorf("%d answers told, %d controllers made, congested %v", len(f.acks), f.made,
						r.cl.Congested())
				}
				giveBack(op)
				r.now += 1_000_000
			}
			r.noLeak()
		})
	}
}

// TestWhatControlIsTold: the arguments of OnAck.
func TestWhatControlIsTold(t *testing.T) {
	f := &fakeControl{rate: 1e8}
	r := pacedRig(t, f, nil)
	call := func(rtt time.Duration, mark string) {
		op := r.op(1, 10, 500)
		r.start(op)
		r.runToAnswer()
		r.now = r.now.Add(rtt)
		p := r.s2c[0]
		r.s2c = nil
		h := p.header()
		in := Arrival{Now: r.now, CE: mark == "on the way back"}
		if mark == "echoed" {
			h.Flags |= wire.FlagCE
		}
		r.cl.OnResp(&h, p.raw[wire.HeaderSize:], &in, r.cout)
		r.takeClient()
		giveBack(op)
		r.now += 1_000_000
	}
	call(7000, "") // the bypass: not told, but the base
	call(9000, "echoed")
	call(190_000, "")
	call(8000, "on the way back")
	call(3000, "") // below link rate everything is told
	const size = 500 + wire.HeaderSize + wireOverhead
	want := []ack{
		{rtt: 9000, base: 7000, bytes: size, ce: true}, {rtt: 190_000, base: 7000, bytes: size},
		{rtt: 8000, base: 7000, bytes: size, ce: true}, {rtt: 3000, base: 3000, bytes: size},
	}
	if len(f.acks) != len(want) {
		t.Fatalf("told %+v", f.acks)
	}
	for i, w := range want {
		got := f.acks[i]
		if w.now = got.now; got != w {
			t.Errorf("told %+v, want %+v", got, w)
		}
	}
	r.noLeak()
}

// runToAnswer brings the client's one packet to the server and answers the request.
func (r *rig) runToAnswer() {
	r.tb.Helper()
	for len(r.c2s) == 0 {
		r.now = max(r.now, r.cl.PaceAt())
		r.release()
	}
	p := r.c2s[0]
	r.c2s = r.c2s[1:]
	if ev := r.toServer(p); ev.Kind != EventRequest {
		r.tb.Fatalf("event %+v", ev)
	} else if err := r.respond(ev.Slot, 500); err != nil {
		r.tb.Fatal(err)
	}
}

// TestAnswerWhileResendWaits: the request is sent again, but the copy waits for its
// time when the answer to the first one comes. The answer is dropped and the buffers
// stay the library's (eRPC, appendix C); the server repeats it for the copy.
func TestAnswerWhileResendWaits(t *testing.T) {
	f := &fakeControl{rate: 1e5} // 10 us a byte: the second packet waits for 11 ms
	r := pacedRig(t, f, nil)
	r.slowDown(f)
	op := r.op(1, 1000, 10)
	r.start(op)
	late := r.c2s[0]
	r.c2s = nil
	r.now += 21 * ms / 4
	r.cl.Scan(r.now, r.cout)
	if r.takeClient(); !r.paced {
		t.Fatal("the copy does not wait")
	}
	if len(r.c2s) != 0 || r.cst.Rollbacks != 1 {
		t.Fatalf("%d packets, %d rollbacks", len(r.c2s), r.cst.Rollbacks)
	}
	if ev := r.toServer(late); ev.Kind != EventRequest || r.respond(ev.Slot, 10) != nil {
		t.Fatalf("event %+v", ev)
	}
	answer := r.s2c[0]
	r.s2c = nil
	if ev := r.toClient(answer); ev.Kind != 0 || r.cst.DropUnsent != 1 {
		t.Fatalf("event %+v, stats %+v", ev, r.cst)
	}
	if op.Req.Owner() != msgbuf.OwnerLibrary || op.Resp.Owner() != msgbuf.OwnerLibrary {
		t.Error("a buffer is the application's while its packet waits")
	}
	r.runPaced(1000, 10)
	if len(r.ended) != 1 || r.ended[0].Kind != EventDone {
		t.Errorf("ended with %+v", r.ended)
	}
	giveBack(op)
	r.noLeak()
}

// TestEndWhileWaiting: what waits for its time when its request is cancelled or its
// session closed is never sent.
func TestEndWhileWaiting(t *testing.T) {
	for _, end := range []string{"cancel", "close"} {
		f := &fakeControl{rate: 1e6}
		r := pacedRig(t, f, nil)
		r.slowDown(f)
		op := r.op(1, 5000, 10)
		r.start(op)
		if end == "cancel" {
			if !r.cancel(1, errCancelled) {
				t.Fatal("not cancelled")
			}
		} else {
			r.closeClient(ErrPeerLost)
		}
		r.c2s = nil
		giveBack(op)
		r.now = r.cl.PaceAt()
		r.release()
		if len(r.c2s) != 0 || r.paced {
			t.Errorf("%s: %d packets left, waiting %v", end, len(r.c2s), r.paced)
		}
		r.noLeak()
	}
}

// TestTimeoutsAndRate: the second timeout in the middle of a message is told to congestion
// control; one in which only the response is missing is not, since the handler may
// be slow.
func TestTimeoutsAndRate(t *testing.T) {
	for _, c := range []struct{ size, want int }{{3000, 1}, {10, 0}} {
		f := &fakeControl{rate: 1e8}
		r := pacedRig(t, f, nil)
		op := r.op(1, c.size, 10)
		r.start(op)
		for i := range 2 { // the first may be a peer that did not get to run
			if f.timeouts != 0 {
				t.Errorf("%d bytes: %d timeouts told after %d", c.size, f.timeouts, i)
			}
			r.now += 60 * ms
			r.cl.Scan(r.now, r.cout)
			r.takeClient()
		}
		if f.timeouts != c.want || r.cl.Congested() != (c.want == 1) {
			t.Errorf("%d bytes: %d timeouts told, congested %v", c.size, f.timeouts, r.cl.Congested())
		}
		r.closeClient(ErrClosed)
		giveBack(op)
		r.noLeak()
	}
}

// TestBaseRTT: the least round trip of a period holds until the next one has ended.
func TestBaseRTT(t *testing.T) {
	var e rtoEstimator
	const period = monotime.Time(baseFor)
	now := period + 1
	for i, c := range []struct {
		after        monotime.Time
		sample, want time.Duration
	}{
		{0, 10, 10}, {1, 30, 10}, {period, 40, 30}, {period + 1, 35, 35}, {0, 50, 35},
		{period + 1, 60, 50}, {period + 1, 70, 70}, {0, 5, 5},
	} {
		now += c.after
		e.sample(c.sample)
		if got := e.baseAt(now); got != c.want {
			t.Errorf("step %d: base %d, want %d", i, got, c.want)
		}
	}
}

// TestSpikesNeedAWitness: one burst of very long round trips, as a host makes that does
// not get to run, is not told; if those of packets sent later are as long, they are.
// Time that the loop here did not see for its own pauses does not count.
func TestSpikesNeedAWitness(t *testing.T) {
	f := &fakeControl{rate: 1e8}
	r := pacedRig(t, f, nil)
	call := func(rtt, unseen time.Duration) {
		r.now++
		op := r.op(1, 10, 500)
		r.start(op)
		r.runToAnswer()
		r.now = r.now.Add(rtt)
		p := r.s2c[0]
		r.s2c = nil
		h := p.header()
		r.cl.OnResp(&h, p.raw[wire.HeaderSize:], &Arrival{Now: r.now, Unseen: unseen}, r.cout)
		r.takeClient()
		giveBack(op)
	}
	told := func(want int) {
		t.Helper()
		if len(f.acks) != want {
			t.Errorf("%d told, want %d: %+v", len(f.acks), want, f.acks)
		}
	}
	const long = 10 * testBypass
	call(long, 0) // the host, perhaps
	told(0)
	call(7000, 0) // it was
	call(long, 0) // again
	told(0)
	call(long, 0) // this one was sent after the first had been seen
	told(1)
	call(long, 0)
	told(2)
	call(7000, 0) // below link rate all others are told
	told(3)
	call(long, 0)
	told(3)
	call(long, long-8000) // nobody looked
	told(4)
	if got := f.acks[3]; got.rtt != 8000 {
		t.Errorf("told a round trip of %d ns, want 8000", got.rtt)
	}
	r.noLeak()
}
