package erpc

import (
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/userspace-rpc/erpc/erpc/internal/engine"
)

// crew is a pool of workers whose jobs wait until the test lets them end. All of it is driven by
// what the pool does, none by time.
type crew struct {
	*workerPool
	tb      testing.TB
	work    []*addrWork
	started chan int // the address of a job that has begun
	finish  []chan struct{}
}

func newCrew(tb testing.TB, cfg *engine.Shares, workers, most, addresses int) *crew {
	c := &crew{tb: tb, started: make(chan int, most+workers)}
	c.workerPool = newWorkerPool(cfg, workers, most)
	for i := range addresses {
		c.work = append(c.work, &addrWork{line: c.open(stubAddrOf(i))})
		c.finish = append(c.finish, make(chan struct{}))
	}
	return c
}

// jobs makes jobs of an address.
func (c *crew) jobs(address, n int) (jobs []*job) {
	for range n {
		j := &job{work: c.work[address], lately: new(atomic.Int64)}
		j.handle.job = j
		j.fn = func(ReqHandle) {
			c.started <- address
			<-c.finish[address]
		}
		jobs = append(jobs, j)
	}
	return jobs
}

// put hands jobs of an address over at once and returns how many were taken.
func (c *crew) put(address, n int) (taken int) {
	return n - c.submit(c.jobs(address, n))
}

// begin waits until n jobs have begun and returns whose they were, in the order of addresses.
func (c *crew) begin(n int) (who []int) {
	for range n {
		who = append(who, <-c.started)
	}
	slices.Sort(who)
	return who
}

// none checks that no job has begun that was not waited for, when so many workers more could have
// jobs and none is on its way to one.
func (c *crew) none(spare int) {
	c.tb.Helper()
	c.until(func() bool { return !c.coming && c.limit-c.running == spare })
	select {
	case who := <-c.started:
		c.tb.Errorf("a job of address %d has begun", who)
	default:
	}
}

// until waits until a condition of the pool holds.
func (c *crew) until(cond func() bool) {
	for {
		c.mu.Lock()
		over := cond()
		c.mu.Unlock()
		if over {
			return
		}
		runtime.Gosched()
	}
}

// end ends all.
func (c *crew) end() {
	c.tb.Helper()
	for _, f := range c.finish {
		close(f)
	}
	c.stop()
	for _, q := range c.work {
		c.close(q.line)
	}
	if c.waiting+c.running+c.users+c.queues != 0 || c.next != nil || len(c.lines) != 0 {
		c.tb.Errorf("at the end: %d wait, %d run, %d users, %d queues", c.waiting, c.running,
			c.users, c.queues)
	}
	if c.workers+len(c.idle) != 0 {
		c.tb.Errorf("at the end: %d workers, %d of them idle", c.workers, len(c.idle))
	}
}

// TestHogOfWorkers: an address with slow handlers has three quarters of the workers; the others
// take turns in the rest.
func TestHogOfWorkers(t *testing.T) {
	c := newCrew(t, &engine.Shares{}, 8, 100, 3)
	if n := c.put(0, 100); n < 75 {
		t.Errorf("%d jobs of the hog wait", n)
	}
	if who := c.begin(6); !slices.Equal(who, []int{0, 0, 0, 0, 0, 0}) {
		t.Errorf("first %v", who)
	}
	c.none(2)
	c.put(1, 3)
	c.put(2, 3)
	if who := c.begin(2); !slices.Equal(who, []int{1, 1}) && !slices.Equal(who, []int{1, 2}) {
		t.Errorf("then %v", who)
	}
	// A request that ends makes room for the others, not for the hog.
	c.finish[1] <- struct{}{}
	if who := c.begin(1); who[0] == 0 {
		t.Error("the hog has a worker more")
	}
	c.end()
}

// TestTurns: with one worker addresses take turns, however much of one waits.
func TestTurns(t *testing.T) {
	c := newCrew(t, &engine.Shares{}, 1, 100, 4)
	c.put(0, 1)
	c.begin(1)
	c.put(0, 20)
	for a := 1; a < 4; a++ {
		c.put(a, 2)
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
	c := newCrew(t, &engine.Shares{}, 1, 40, 11)
	c.put(0, 1)
	c.begin(1)
	if n := c.put(0, 100); n != 30 {
		t.Errorf("%d jobs of the hog wait", n)
	}
	for a := 1; a <= 10; a++ {
		if n := c.put(a, 1); n != 1 {
			t.Errorf("address %d: %d jobs wait", a, n)
		}
	}
	if c.waiting != 40 {
		t.Errorf("%d jobs wait", c.waiting)
	}
	c.end()
}

// TestWorkersOff: without quotas there is one line, and one address may have all.
func TestWorkersOff(t *testing.T) {
	c := newCrew(t, &engine.Shares{Off: true}, 4, 10, 2)
	if n := c.put(0, 4); n != 4 {
		t.Errorf("%d jobs", n)
	}
	c.begin(4)
	if n := c.put(1, 5); n != 5 {
		t.Errorf("%d jobs", n)
	}
	if n := c.put(0, 10); n != 5 {
		t.Errorf("%d jobs", n)
	}
	c.finish[0] <- struct{}{}
	if who := c.begin(1); who[0] != 1 {
		t.Error("not in the order in which they came")
	}
	c.end()
}

// TestGrownQuota: when an address has ended, its quota goes to those that wait.
func TestGrownQuota(t *testing.T) {
	c := newCrew(t, &engine.Shares{}, 8, 100, 2)
	c.put(1, 2)
	c.begin(2)
	c.put(0, 20)
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

// TestQuotasAwake: workers that wait begin when quotas have grown by more than one.
func TestQuotasAwake(t *testing.T) {
	c := newCrew(t, &engine.Shares{}, 32, 1000, 3)
	c.put(2, 4)
	c.begin(4)
	c.put(0, 100)
	c.begin(20) // three quarters are at work
	c.put(1, 100)
	if who := c.begin(8); who[0] != 1 { // a quota of four
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
	c := newCrew(t, &engine.Shares{}, 4, 100, 10)
	c.put(0, 10)
	c.begin(3)
	for a := 1; a < 10; a++ {
		c.put(a, 1)
	}
	if who := c.begin(1); who[0] == 0 {
		t.Error("the hog has them all")
	}
	c.end()
}

// TestPoolGrows: there is a worker for each handler that blocks, up to the limit, and for others
// there is none.
func TestPoolGrows(t *testing.T) {
	c := newCrew(t, &engine.Shares{Off: true}, 100, 400, 1)
	for _, n := range []int{1, 40, 59} {
		c.put(0, n)
		c.begin(n)
	}
	c.put(0, 50)
	c.none(0)
	if c.workers != 100 {
		t.Errorf("%d workers for 150 jobs", c.workers)
	}
	for range 50 {
		c.finish[0] <- struct{}{}
	}
	c.begin(50)
	c.end()

	c = newCrew(t, &engine.Shares{Off: true}, 100, 400, 1)
	for range 100 { // one after the other
		c.put(0, 1)
		c.begin(1)
		c.finish[0] <- struct{}{}
		c.until(func() bool { return len(c.idle) == c.workers })
	}
	if c.workers != 1 {
		t.Errorf("%d workers for one job at a time", c.workers)
	}
	c.end()
}

// TestOneComes: however many jobs are handed over, and how often, one worker is on its way. It
// makes the next one come.
func TestOneComes(t *testing.T) {
	c := newCrew(t, &engine.Shares{Off: true}, 10, 100, 1)
	for round := range 2 {
		c.mu.Lock() // no worker gets anywhere
		idle := len(c.idle)
		for _, j := range c.jobs(0, 8) {
			c.admit(j)
			c.call()
		}
		if came := c.workers - len(c.idle); !c.coming || came != 1 {
			t.Errorf("round %d: %d workers come, of %d idle ones", round, came, idle)
		}
		c.mu.Unlock()
		c.begin(8)
		for range 8 {
			c.finish[0] <- struct{}{}
		}
		c.until(func() bool { return len(c.idle) == c.workers })
	}
	c.end()
}

// TestPoolShrinks: workers that nobody needs end; those that are needed now and then stay.
func TestPoolShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, &engine.Shares{Off: true}, 100, 400, 1)
		work := func(n int) {
			c.put(0, n)
			c.begin(n)
			for range n {
				c.finish[0] <- struct{}{}
			}
			synctest.Wait()
		}
		for round := range 3 {
			work(50)
			if n := len(c.idle); n != 50 || c.workers != 50 {
				t.Fatalf("round %d: %d workers, %d idle", round, c.workers, n)
			}
			for range 25 { // two of them every second
				<-time.After(time.Second)
				synctest.Wait()
				if c.workers < 2 {
					t.Fatalf("round %d: %d workers, where two are needed", round, c.workers)
				}
				work(2)
			}
			if c.workers != 2 {
				t.Errorf("round %d: %d workers, where two are needed", round, c.workers)
			}
			c.put(0, 1)
			c.begin(1)
			<-time.After(2*idleFor + 1)
			synctest.Wait()
			if c.workers != 1 || c.trimming {
				t.Errorf("round %d: %d workers, one at work; trimming: %v", round, c.workers, c.trimming)
			}
			c.finish[0] <- struct{}{}
		}
		<-time.After(idleFor - 1)
		synctest.Wait()
		if c.workers != 1 {
			t.Errorf("%d workers after a little less than idleFor", c.workers)
		}
		c.end()
	})
}

// TestStopWithJobs: stop lets the jobs that wait run, and wakes the workers that wait for a quota.
func TestStopWithJobs(t *testing.T) {
	c := newCrew(t, &engine.Shares{}, 8, 100, 2)
	c.put(0, 7)
	c.begin(6) // its quota
	c.put(1, 2)
	c.begin(2)
	close(c.finish[1])
	c.until(func() bool { return len(c.idle) == 2 })
	stopped := make(chan struct{})
	go func() {
		c.stop()
		close(stopped)
	}()
	c.begin(1) // quotas are over
	close(c.finish[0])
	<-stopped
	if n := c.submit(c.jobs(0, 3)); n != 3 {
		t.Errorf("%d of 3 jobs are refused after the end", n)
	}
	if c.workers+c.running+c.waiting != 0 {
		t.Errorf("%d workers, %d jobs run, %d wait", c.workers, c.running, c.waiting)
	}
}

// TestRefusedFirst: the jobs for which there is no room come to the front.
func TestRefusedFirst(t *testing.T) {
	c := newCrew(t, &engine.Shares{Off: true}, 1, 4, 2)
	c.put(0, 1)
	c.begin(1)
	jobs := c.jobs(1, 6)
	want := slices.Clone(jobs[4:])
	if n := c.submit(jobs); n != 2 || !slices.Equal(jobs[:n], want) {
		t.Errorf("%d jobs are refused, and not the last ones", n)
	}
	c.end()
}

// TestSubmitAllocatesNothing: neither does a worker.
func TestSubmitAllocatesNothing(t *testing.T) {
	p := newWorkerPool(&engine.Shares{}, 1, 10)
	q := &addrWork{line: p.open(stubAddrOf(0))}
	ran := make(chan struct{})
	j := &job{work: q, lately: new(atomic.Int64), fn: func(ReqHandle) { ran <- struct{}{} }}
	j.handle.job = j
	batch := []*job{j}
	if n := testing.AllocsPerRun(100, func() {
		p.submit(batch)
		<-ran
	}); n > 0 {
		t.Errorf("%v allocations per job", n)
	}
	p.stop()
}
