package erpc

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc/internal/engine"
	"github.com/userspace-rpc/erpc/internal/monotime"
)

// TestLoopBringsWorker: a loop that lets others run has a worker come, also while another one is on
// its way, which may wait for a processor.
func TestLoopBringsWorker(t *testing.T) {
	c := newCrew(t, &engine.Shares{Off: true}, 4, 10, 1)
	c.mu.Lock()
	c.coming = true // it never arrives
	c.mu.Unlock()
	if n := c.put(0, 2); n != 2 {
		t.Fatalf("%d jobs were taken", n)
	}
	if c.mu.Lock(); c.workers != 0 {
		t.Error("a second worker came")
	}
	c.mu.Unlock()
	c.letRun()
	c.begin(2)
	if at := c.waited.Load(); at != 0 {
		t.Errorf("the loop still waits, since %d", at)
	}
	c.end()
}

// TestWorkerGivesWay: a worker that finds job after job lets a loop run that has waited for long.
func TestWorkerGivesWay(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const jobs = 50 // the race detector lets goroutines run in any order
	p := newWorkerPool(&engine.Shares{Off: true}, 1, jobs)
	q := &addrWork{line: p.open(stubAddrOf(0))}
	var ran atomic.Bool
	var list []*job
	before := false
	for range jobs {
		j := &job{work: q, lately: new(atomic.Int64), fn: func(ReqHandle) {
			// The loop is in letRun, since this worker has the only processor.
			for monotime.Now().Sub(monotime.Time(p.waited.Load())) < loopPatience {
			}
			before = ran.Load()
		}}
		j.handle.job = j
		list = append(list, j)
	}
	if n := p.submit(list); n != 0 {
		t.Fatalf("%d jobs were refused", n)
	}
	p.letRun()
	ran.Store(true)
	p.stop()
	if !before {
		t.Error("all jobs ran before the loop")
	}
	p.close(q.line)
}

// TestLoopPatience: results gather for a while.
func TestLoopPatience(t *testing.T) {
	for wait, want := range map[time.Duration]bool{
		0: false, loopPatience - 1: false, loopPatience: true, time.Second: true,
	} {
		if got := overdue(5, monotime.Time(5).Add(wait)); got != want {
			t.Errorf("after %v: %v", wait, got)
		}
	}
}
