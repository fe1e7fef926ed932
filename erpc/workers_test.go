package erpc

import (
	"slices"
	"testing"
)

// crew is a pool of workers whose jobs wait until the test lets them end. All of it is driven by
// what the pool does, none by time.
type crew struct {
	*workerPool
	tb      testing.TB
	shares  []*share
	started chan int // the address of a job that has begun
	finish  []chan struct{}
}

func newCrew(tb testing.TB, cfg *Shares, workers, most, addresses int) *crew {
	c := &crew{tb: tb, started: make(chan int, most+workers)}
	c.workerPool = newWorkerPool(cfg, workers, most)
	for i := range addresses {
		c.shares = append(c.shares, &share{line: c.open(stubAddrOf(i))})
		c.finish = append(c.finish, make(chan struct{}))
	}
	return c
}

// submit puts in jobs of an address and returns how many were taken.
func (c *crew) submit(address, n int) (taken int) {
	for range n {
		j := &job{share: c.shares[address]}
		j.handle.job = j
		j.fn = func(ReqHandle) {
			c.started <- address
			<-c.finish[address]
		}
		if c.Submit(j) {
			taken++
		}
	}
	return taken
}

// begin waits until n jobs have begun and returns whose they were, in the order of addresses.
func (c *crew) begin(n int) (who []int) {
	for range n {
		who = append(who, <-c.started)
	}
	slices.Sort(who)
	return who
}

// none checks that no job has begun that was not waited for, when all workers that could begin
// one wait.
func (c *crew) none(idle int) {
	c.tb.Helper()
	for {
		c.mu.Lock()
		n := c.idle
		c.mu.Unlock()
		if n == idle {
			break
		}
	}
	select {
	case who := <-c.started:
		c.tb.Errorf("a job of address %d has begun", who)
	default:
	}
}

// end ends all.
func (c *crew) end() {
	c.tb.Helper()
	for _, f := range c.finish {
		close(f)
	}
	c.stop()
	for _, sh := range c.shares {
		c.close(sh.line)
	}
	if c.waiting+c.running+c.users+c.queues != 0 || c.next != nil || len(c.lines) != 0 {
		c.tb.Errorf("at the end: %d wait, %d run, %d users, %d queues", c.waiting, c.running, c.users, c.queues)
	}
}

// TestHogOfWorkers: an address with slow handlers has three quarters of the workers; the others
// take turns in the rest.
func TestHogOfWorkers(t *testing.T) {
	c := newCrew(t, &Shares{}, 8, 100, 3)
	if n := c.submit(0, 100); n < 75 {
		t.Errorf("%d jobs of the hog wait", n)
	}
	if who := c.begin(6); !slices.Equal(who, []int{0, 0, 0, 0, 0, 0}) {
		t.Errorf("first %v", who)
	}
	c.none(2)
	c.submit(1, 3)
	c.submit(2, 3)
	if who := c.begin(2); !slices.Equal(who, []int{1, 1}) && !slices.Equal(who, []int{1, 2}) {
		t.Errorf("then %v", who)
	}
	// Whoever ends makes room for the others, not for the hog.
	c.finish[1] <- struct{}{}
	if who := c.begin(1); who[0] == 0 {
		t.Error("the hog has a worker more")
	}
	c.end()
}

// TestTurns: with one worker addresses take turns, however much of one waits.
func TestTurns(t *testing.T) {
	c := newCrew(t, &Shares{}, 1, 100, 4)
	c.submit(0, 1)
	c.begin(1)
	c.submit(0, 20)
	for a := 1; a < 4; a++ {
		c.submit(a, 2)
	}
	var got []int
	last := 0
	for range 10 {
		c.finish[last] <- struct{}{}
		last = <-c.started
		got = append(got, last)
	}
	if want := []int{0, 1, 2, 3, 0, 1, 2, 3, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("turns %v, want %v", got, want)
	}
	c.end()
}

// TestHogOfLine: jobs of one address fill three quarters of the places, and no more.
func TestHogOfLine(t *testing.T) {
	c := newCrew(t, &Shares{}, 1, 40, 11)
	c.submit(0, 1)
	c.begin(1)
	if n := c.submit(0, 100); n != 30 {
		t.Errorf("%d jobs of the hog wait", n)
	}
	for a := 1; a <= 10; a++ {
		if n := c.submit(a, 1); n != 1 {
			t.Errorf("address %d: %d jobs wait", a, n)
		}
	}
	if c.waiting != 40 {
		t.Errorf("%d jobs wait", c.waiting)
	}
	c.end()
}

// TestWorkersOff: without shares there is one line, and one address may have all.
func TestWorkersOff(t *testing.T) {
	c := newCrew(t, &Shares{Off: true}, 4, 10, 2)
	if n := c.submit(0, 4); n != 4 {
		t.Errorf("%d jobs", n)
	}
	c.begin(4)
	if n := c.submit(1, 5); n != 5 {
		t.Errorf("%d jobs", n)
	}
	if n := c.submit(0, 10); n != 5 {
		t.Errorf("%d jobs", n)
	}
	c.finish[0] <- struct{}{}
	if who := c.begin(1); who[0] != 1 {
		t.Error("not in the order in which they came")
	}
	c.end()
}

// TestGrownShare: when an address has ended, its share goes to those that wait.
func TestGrownShare(t *testing.T) {
	c := newCrew(t, &Shares{}, 8, 100, 2)
	c.submit(1, 2)
	c.begin(2)
	c.submit(0, 20)
	if who := c.begin(4); !slices.Equal(who, []int{0, 0, 0, 0}) {
		t.Errorf("%v", who)
	}
	c.none(2)
	c.finish[1] <- struct{}{}
	c.begin(1)
	c.finish[1] <- struct{}{}
	c.begin(1)
	c.none(2) // six of the hog
	c.end()
}

// TestSharesAwake: workers that wait begin when shares have grown by more than one.
func TestSharesAwake(t *testing.T) {
	c := newCrew(t, &Shares{}, 32, 1000, 3)
	c.submit(2, 4)
	c.begin(4)
	c.submit(0, 100)
	c.begin(20) // three quarters are at work
	c.submit(1, 100)
	if who := c.begin(8); who[0] != 1 { // a share of four
		t.Errorf("%v", who)
	}
	for range 4 {
		c.finish[2] <- struct{}{}
	}
	if who := c.begin(2); !slices.Equal(who, []int{1, 1}) { // of three
		t.Errorf("%v", who)
	}
	c.none(2)
	c.end()
}

// TestManyAddresses: with more addresses than workers each may have one.
func TestManyAddresses(t *testing.T) {
	c := newCrew(t, &Shares{}, 4, 100, 10)
	c.submit(0, 10)
	c.begin(3)
	for a := 1; a < 10; a++ {
		c.submit(a, 1)
	}
	if who := c.begin(1); who[0] == 0 {
		t.Error("the hog has them all")
	}
	c.end()
}

// TestSubmitAllocatesNothing: neither does a worker.
func TestSubmitAllocatesNothing(t *testing.T) {
	p := newWorkerPool(&Shares{}, 1, 10)
	sh := &share{line: p.open(stubAddrOf(0))}
	ran := make(chan struct{})
	j := &job{share: sh, fn: func(ReqHandle) { ran <- struct{}{} }}
	j.handle.job = j
	if n := testing.AllocsPerRun(100, func() {
		p.Submit(j)
		<-ran
	}); n > 0 {
		t.Errorf("%v allocations per job", n)
	}
	p.stop()
}
