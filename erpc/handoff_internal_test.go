package erpc

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

// handoffRig is a handoff whose turns end at once, so that tests see what they were given.
type handoffRig struct {
	*handoff
	tb     testing.TB
	mu     sync.Mutex
	ran    []uint64 // request numbers, in order
	turns  int      // goroutines that were started
	ended  sync.WaitGroup
	number uint64
	work   addrWork // of the requests' address
}

func newHandoffRig(tb testing.TB, clock func() Time) *handoffRig {
	tb.Helper()
	st := newStub(tb, Config{})
	st.Rpc.txBatch = 32
	if clock != nil {
		st.Rpc.source = clock
	}
	st.Rpc.jobs.paces = new(paces)
	g := &handoffRig{tb: tb}
	g.handoff = &handoff{
		r: st.Rpc, stop: func() bool { return true }, leave: g.ended.Done,
		enter: func() { g.turns++; g.ended.Add(1) },
		call:  make(chan struct{}, 1), end: make(chan error, 100),
		over: make(chan struct{}), watched: make(chan struct{}),
	}
	return g
}

// request adds a request of a type to those that the handoff runs next.
func (g *handoffRig) request(typ uint8, fn func()) {
	jobs := &g.r.jobs
	j, gen := jobs.take()
	num := g.number
	g.number++
	bits := uint64(gen)<<genShift | uint64(typ)
	j.handle = ReqHandle{s: &serverEnd{Session: Session{rpc: g.r}}, job: j, bits: bits}
	j.work, j.lately = &g.work, &g.r.nexus.lately[typ]
	j.fn = func(ReqHandle) {
		g.mu.Lock()
		g.ran = append(g.ran, num)
		g.mu.Unlock()
		if fn != nil {
			fn()
		}
	}
	jobs.own = append(jobs.own, j)
}

func (g *handoffRig) requests(n int, typ uint8) {
	for range n {
		g.request(typ, nil)
	}
}

// left returns how many requests wait for the handoff, and how many for the pool.
func (g *handoffRig) left() [2]int {
	return [2]int{len(g.r.jobs.own), len(g.r.jobs.batch)}
}

// check compares the numbers of the requests that ran with 0 to n-1.
func (g *handoffRig) check(n int) {
	g.tb.Helper()
	want := make([]uint64, n)
	for i := range want {
		want[i] = uint64(i)
	}
	if !slices.Equal(g.ran, want) {
		g.tb.Errorf("requests %v ran, want %d", g.ran, n)
	}
}

// TestShift: a shift runs what has answers for one batch of packets, and leaves the others for the
// next one.
func TestShift(t *testing.T) {
	g := newHandoffRig(t, nil)
	g.requests(70, 1)
	for i, want := range []struct{ ran, own int }{{32, 38}, {64, 6}, {70, 0}} {
		if !g.shift(0) {
			t.Fatal("the loop is gone")
		}
		g.check(want.ran)
		if got := g.left(); got != [2]int{want.own, 0} {
			t.Errorf("after shift %d: %v left, want %d", i+1, got, want.own)
		}
		if w := g.word.Load(); w != 0 {
			t.Errorf("after shift %d: word %#x", i+1, w)
		}
	}
	for _, j := range g.jobs[:cap(g.jobs)] {
		if j != nil {
			t.Fatal("the handoff keeps jobs that have ended")
		}
	}
}

// TestShiftEnds: a shift ends when its time is over. Requests of a type that turned out to be slow
// go to the pool, the others stay.
func TestShiftEnds(t *testing.T) {
	for _, c := range []struct {
		takes time.Duration // each request
		ran   int
		left  [2]int
		later [2]int // after three more shifts
	}{
		{4 * time.Microsecond, 32, [2]int{}, [2]int{}},           // 96 us, and then the last ones
		{5 * time.Microsecond, 24, [2]int{0, 8}, [2]int{0, 8}},   // three measurements
		{7 * time.Microsecond, 16, [2]int{16, 0}, [2]int{}},      // two
		{13 * time.Microsecond, 8, [2]int{24, 0}, [2]int{0, 8}},  // one measurement
		{100 * time.Microsecond, 8, [2]int{24, 0}, [2]int{0, 8}}, // the clock is not read before
		{-100 * time.Microsecond, 32, [2]int{}, [2]int{}},        // a clock that jumps hurts nobody
	} {
		now := monotime.Time(1e9)
		g := newHandoffRig(t, func() Time { return now })
		for range 32 {
			g.request(1, func() { now = now.Add(c.takes) })
		}
		g.shift(0)
		g.check(c.ran)
		if got := g.left(); got != c.left {
			t.Errorf("%v each: %v left, want %v", c.takes, got, c.left)
		}
		for range 3 {
			g.shift(0)
		}
		if got := g.left(); got != c.later {
			t.Errorf("%v each: later %v left, want %v", c.takes, got, c.later)
		}
	}
}

// TestShiftMeasures: a slow type does not make others slow that are in the same shift.
func TestShiftMeasures(t *testing.T) {
	now := monotime.Time(1e9)
	g := newHandoffRig(t, func() Time { return now })
	for range 10 {
		g.request(1, func() { now = now.Add(time.Microsecond) })
		g.request(2, func() { now = now.Add(8 * time.Microsecond) })
	}
	for len(g.r.jobs.own) > 0 {
		g.shift(0)
	}
	p := g.r.jobs.paces
	one, two := p.quick(&g.work, 1, now), p.quick(&g.work, 2, now)
	if !one || two {
		t.Errorf("quick are 1: %v, 2: %v", one, two)
	}
}

// TestTake: while a handler waits another goroutine gets the loop and the requests that are left.
func TestTake(t *testing.T) {
	g := newHandoffRig(t, nil)
	started, release := make(chan uint64), make(chan struct{})
	g.requests(2, 1)
	g.request(2, func() { started <- g.word.Load(); <-release })
	g.requests(40, 1)
	mine := make(chan bool)
	go func() { mine <- g.shift(0) }()
	word := <-started
	if begun(word) != 3 {
		t.Errorf("%d requests are begun, want 3", begun(word))
	}
	g.take(word - 1) // of the request before
	if g.turns != 0 {
		t.Fatal("the loop was given away by an old word")
	}
	g.take(word)
	g.take(word)
	if err := <-g.end; err != nil || g.turns != 1 {
		t.Fatalf("%d turns, %v", g.turns, err)
	}
	if got := g.left(); got != [2]int{0, 40} {
		t.Errorf("%v left, want all in the pool", got)
	}
	close(release)
	if <-mine {
		t.Error("the loop has two owners")
	}
	g.ended.Wait()
	g.check(3)
	if w := g.word.Load(); w != 1<<turnShift {
		t.Errorf("word %#x", w)
	}
	if b := g.work.blocked; b[1] != nil || b[2] == nil || b[2].hold != minBlocked {
		t.Errorf("blocked: %+v", b)
	}
}

// TestTakeRaces: whenever the loop is given away, each request runs once or is left for the pool,
// and one goroutine has the loop.
func TestTakeRaces(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for turn := uint64(0); turn < 500; {
		g := newHandoffRig(t, nil)
		g.word.Store(turn << turnShift)
		g.requests(32, 1)
		mine, wait := make(chan bool), r.IntN(20)
		go func() { mine <- g.shift(turn) }()
		for range wait {
			runtime.Gosched()
		}
		for word := g.word.Load(); begun(word) > 0 && g.turns == 0; word = g.word.Load() {
			g.take(word)
		}
		kept := <-mine
		g.ended.Wait()
		if kept == (g.turns > 0) {
			t.Fatalf("%d turns, and the first goroutine has the loop: %v", g.turns, kept)
		}
		if n := len(g.ran) + len(g.r.jobs.batch); n != 32 {
			t.Fatalf("%d requests ran, %d wait", len(g.ran), len(g.r.jobs.batch))
		}
		g.check(len(g.ran))
		turn++
	}
}

// TestWatchdog: the watchdog gives the loop away when a shift takes too long, and not before. When
// there are no shifts it waits for one.
func TestWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		g := newHandoffRig(t, func() Time { return Time(1e9).Add(time.Since(begin)) })
		go g.watchdog()
		<-time.After(dozeAfter*watchEvery - 1)
		if synctest.Wait(); g.dozing.Load() {
			t.Error("the watchdog dozes already")
		}
		<-time.After(2)
		if synctest.Wait(); !g.dozing.Load() {
			t.Error("the watchdog does not doze")
		}
		<-time.After(watchEvery / 3)
		mine := make(chan bool)
		shift := func(d time.Duration) {
			g.request(1, func() { <-time.After(d) })
			go func() { mine <- g.shift(g.word.Load() >> turnShift) }()
		}
		shift(watchEvery + tooLong) // a look comes just before it is too long
		<-time.After(watchEvery)
		shift = nil
		if synctest.Wait(); g.dozing.Load() || g.turns != 1 {
			t.Errorf("dozing %v, %d turns", g.dozing.Load(), g.turns)
		}
		if <-mine {
			t.Error("the loop has two owners")
		}
		g.request(1, func() { <-time.After(tooLong / 2) })
		if !g.shift(1) || g.turns != 1 {
			t.Error("the loop was given away though the handler returned soon")
		}
		close(g.over)
		<-g.watched
		g.ended.Wait()
	})
}

// TestDoze: a shift that begins before the watchdog dozes ends the doze.
func TestDoze(t *testing.T) {
	g := newHandoffRig(t, nil)
	g.began.Store(7)
	if !g.doze(6) || g.dozing.Load() {
		t.Error("the watchdog missed a shift")
	}
	close(g.over)
	if g.doze(7) {
		t.Error("the watchdog goes on after the end of the loop")
	}
}

// TestExited: a handler that ends the goroutine does not end the loop, a callback does.
func TestExited(t *testing.T) {
	g := newHandoffRig(t, nil)
	g.request(1, nil)
	g.requests(2, 1)
	g.word.Store(5<<turnShift | 1)
	g.jobs, g.r.jobs.own = g.r.jobs.own, nil
	g.exited(4) // somebody else has the loop
	if g.turns != 0 {
		t.Fatal("a goroutine without the loop gave it away")
	}
	g.exited(5)
	g.ended.Wait()
	if err := <-g.end; err != nil || g.turns != 1 || g.left() != [2]int{0, 2} {
		t.Errorf("%v, %d turns, %v left", err, g.turns, g.left())
	}
	g.exited(6)
	if err := <-g.end; err != errLoopExit {
		t.Errorf("the loop ended with %v", err)
	}
}

// TestPace: types whose handlers often take long are slow, for longer each time.
func TestPace(t *testing.T) {
	const us = time.Microsecond
	now := monotime.Time(1e9)
	var p pace
	for range 100 { // one of four
		p.note(now, 8*quickFor-1, 8)
		p.note(now, 8*quickFor, 8)
		p.note(now, 8*quickFor-1, 8)
		p.note(now, 1, 1)
		if !p.quick(now) {
			t.Fatal("slow for one measurement in four")
		}
	}
	p = pace{}
	for i := range 3 {
		if !p.quick(now) {
			t.Fatalf("slow after %d measurements", i)
		}
		p.note(now, quickFor, 1)
	}
	want := minSlow
	for range 10 {
		if p.quick(now.Add(want-1)) || !p.quick(now.Add(want)) {
			t.Fatalf("slow until %v, want %v", p.until.Sub(now), want)
		}
		now = now.Add(want)
		p.slow(now)
		want = min(2*want, maxSlow)
	}
	for range 3 * trustAfter {
		p.note(now, us, 1)
	}
	for p.quick(now.Add(maxSlow)) && p.sum+slowStep < slowSum {
		p.slow(now)
	}
	now = now.Add(maxSlow)
	p.slow(now)
	if d := p.until.Sub(now); d != maxSlow/4 {
		t.Errorf("after many quick ones slow for %v", d)
	}
}

// TestStalls: handlers that block now and then, of any type and address, hold up the loop for a
// bounded part of the time.
func TestStalls(t *testing.T) {
	const each, start = 5 * time.Millisecond, monotime.Time(1e9)
	for every, want := range map[time.Duration]bool{
		80 * time.Millisecond: false, 100 * time.Millisecond: true,
	} {
		var p paces
		now, lost := start, time.Duration(0)
		for typ := uint8(0); now.Sub(start) < time.Minute; typ += 7 { // a new one each time
			now = now.Add(every)
			p.blocked[typ].by = nil
			if q := new(addrWork); p.quick(q, typ, now) {
				p.stall(q, typ, now, each)
				lost += each
			}
		}
		if all := p.until == 0; all != want {
			t.Errorf("a stall every %v: all were taken: %v", every, all)
		}
		if lost > time.Minute/stallLeak+maxStalled+each {
			t.Errorf("a stall every %v: the loop stood still for %v of a minute", every, lost)
		}
	}
	var p paces
	for p.until == 0 {
		p.stall(new(addrWork), 1, start, each)
	}
	if p.stalled != maxStalled+each || p.until != start.Add(stallPause) {
		t.Errorf("after %v none is quick until %v", p.stalled, p.until.Sub(start))
	}
	q := new(addrWork)
	if p.quick(q, 9, p.until-1) || !p.quick(q, 9, p.until) {
		t.Error("the pause ends at another time")
	}
}

// TestBlocked: when handlers of one address block, those of its requests and its type alone go to
// the pool; if it is two addresses, those of all.
func TestBlocked(t *testing.T) {
	var p paces
	hog, other, victim := new(addrWork), new(addrWork), new(addrWork)
	now := monotime.Time(1e9)
	p.stall(hog, 1, now, 0)
	p.stall(hog, 1, now, 0)
	if p.quick(hog, 1, now) || !p.quick(hog, 2, now) || !p.quick(victim, 1, now) {
		t.Error("one address: others go to the pool, or it does not")
	}
	p.stall(other, 1, now, 0)
	if p.quick(other, 1, now) || p.quick(victim, 1, now) || !p.quick(victim, 2, now) {
		t.Error("two addresses: others of the type do not go to the pool")
	}
	var b blocked
	want := minBlocked
	for range 12 {
		b.begin(now)
		if b.ends(now.Add(want-1)) || !b.ends(now.Add(want)) {
			t.Fatalf("blocked for %v, want %v", b.hold, want)
		}
		want = min(2*want, maxSlow)
	}
	for n := 2; b.hold == maxSlow; n++ {
		if b.ends(now.Add(maxSlow)); n == believeAfter && b.hold != maxSlow/2 {
			t.Fatalf("after %d quick requests it would block for %v", n, b.hold)
		}
	}
}
