package poll

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/invariants"
	"github.com/userspace-rpc/erpc/transport"
	"golang.org/x/sys/unix"
)

// endpoint is a transport without packets: only Wake and Close end its Wait.
type endpoint struct {
	Sleeper
	closed atomic.Bool
}

func newEndpoint(t testing.TB) *endpoint {
	t.Helper()
	e := &endpoint{}
	if err := e.Init("test", &e.closed); err != nil {
		t.Fatal(err)
	}
	e.Watch(e.WakeFD())
	t.Cleanup(e.Free)
	return e
}

func (e *endpoint) WaitFDs() []int             { return e.FDs() }
func (e *endpoint) PrepareWait() (bool, error) { return e.Prepare() }

func (e *endpoint) FinishWait(ready uint32) error {
	defer e.Unlock()
	return e.Finish(ready != 0)
}

func (e *endpoint) close() {
	e.closed.Store(true)
	e.Stop()
	e.Free()
}

// prepare begins a wait, which may sleep or not.
func (e *endpoint) prepare(t testing.TB, idle bool) {
	t.Helper()
	if got, err := e.Prepare(); got != idle || err != nil {
		t.Fatalf("Prepare = %v, %v, want %v", got, err, idle)
	}
}

// finish ends a wait.
func (e *endpoint) finish(t testing.TB, woken bool) {
	t.Helper()
	defer e.Unlock()
	if err := e.Finish(woken); err != nil {
		t.Fatalf("Finish: %v", err)
	}
}

// readable checks whether the eventfd is.
func (e *endpoint) readable(t testing.TB, want bool) {
	t.Helper()
	if got := sleep(t, &e.Set, 0) != 0; got != want {
		t.Fatalf("the eventfd is readable: %v, want %v", got, want)
	}
}

// TestWakeBeforePrepare: a Wake keeps the next wait, and only that one, from sleeping.
func TestWakeBeforePrepare(t *testing.T) {
	e := newEndpoint(t)
	for range 3 {
		e.Wake()
		e.Wake()
		e.prepare(t, false)
		e.Wake() // for the wait that has begun, which does not sleep
		e.finish(t, false)
		e.prepare(t, true)
		e.readable(t, false)
		e.finish(t, false)
	}
}

// TestWakeDuringSleep: a Wake after Prepare ends the sleep, whenever that begins.
func TestWakeDuringSleep(t *testing.T) {
	e := newEndpoint(t)
	for range 3 {
		e.prepare(t, true)
		e.Wake()
		e.readable(t, true)
		e.finish(t, true)
		e.readable(t, false)
	}
	e.prepare(t, true)
	e.Wake()
	e.Wake()
	var count [8]byte
	if _, err := unix.Read(e.WakeFD(), count[:]); err != nil || count[0]+count[7] != 1 {
		t.Errorf("two Wakes in one wait wrote %v, %v, want 1", count, err)
	}
	e.finish(t, false)
}

// TestNap: a nap lasts until its end, or until Wake, Stop or Wake before; what else is readable
// does not matter.
func TestNap(t *testing.T) {
	bound(t)
	e := newEndpoint(t)
	other := newEvent(t)
	e.Watch(other)
	add(t, other)
	from := time.Now()
	if err := e.Nap(5 * time.Millisecond); err != nil || time.Since(from) < 5*time.Millisecond {
		t.Errorf("%v after %v", err, time.Since(from))
	}
	e.Wake()
	if err := e.Nap(time.Hour); err != nil {
		t.Error(err)
	}
	e.prepare(t, true) // nothing is left of that Wake
	e.finish(t, false)
	for _, end := range []func(){e.Wake, e.close} {
		napped := make(chan error, 1)
		go func() { napped <- e.Nap(time.Hour) }()
		for e.state.Load() != asleep {
			runtime.Gosched()
		}
		end()
		want := error(nil)
		if e.closed.Load() {
			want = transport.ErrClosed
		}
		if err := <-napped; !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	if err := e.Nap(time.Hour); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestCancel: a wait that does not sleep needs no eventfd, and leaves nothing to the next one.
func TestCancel(t *testing.T) {
	e := newEndpoint(t)
	e.prepare(t, true)
	e.Cancel()
	e.Wake()
	e.readable(t, false)
	e.finish(t, false)
	e.prepare(t, true)
	e.Wake()
	e.readable(t, true)
	e.Cancel() // the wait looks at everything after this
	e.finish(t, true)
	e.prepare(t, true)
	e.readable(t, false)
	e.finish(t, false)
}

// TestClosed: no wait begins after Close, and one that had begun says so.
func TestClosed(t *testing.T) {
	bound(t)
	e := newEndpoint(t)
	e.prepare(t, true)
	e.closed.Store(true)
	if err := e.FinishWait(0); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("Finish: %v, want ErrClosed", err)
	}
	for range 2 { // the first one must not keep the mutex
		if idle, err := e.Prepare(); idle || !errors.Is(err, transport.ErrClosed) {
			t.Errorf("Prepare = %v, %v, want ErrClosed", idle, err)
		}
	}
	e.close()
	if err := e.Wait(e, -1); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("Wait: %v, want ErrClosed", err)
	}
}

// TestStopWaits: Stop ends the sleep, and waits for what comes after it.
func TestStopWaits(t *testing.T) {
	bound(t)
	e := newEndpoint(t)
	for range 100 {
		e.prepare(t, true)
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			e.Stop()
		}()
		for sleep(t, &e.Set, -1) == 0 {
		}
		for range 200 {
			runtime.Gosched()
			select {
			case <-stopped:
				t.Fatal("Stop returned during a wait")
			default:
			}
		}
		e.finish(t, true)
		<-stopped
	}
}

// TestStopDuringSleep stops from one goroutine while another one waits, and wakes come.
func TestStopDuringSleep(t *testing.T) {
	bound(t)
	for range 300 {
		e := newEndpoint(t)
		began, done := make(chan struct{}), make(chan error)
		go func() {
			close(began)
			for {
				if err := e.Wait(e, -1); err != nil {
					done <- err
					return
				}
			}
		}()
		<-began
		go e.Wake()
		e.close()
		if err := <-done; !errors.Is(err, transport.ErrClosed) {
			t.Fatalf("Wait: %v, want ErrClosed", err)
		}
	}
}

// occupy puts other under the number fd, as any part of the process may once it is free.
func occupy(t testing.TB, fd, other int) {
	t.Helper()
	if err := unix.Dup3(other, fd, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
}

// TestFreed: after Free the number of the eventfd belongs to somebody else. Nothing writes to
// it, and nothing closes it.
func TestFreed(t *testing.T) {
	e, other := newEndpoint(t), newEvent(t)
	fd := e.WakeFD()
	e.prepare(t, true)
	e.state.Store(waking) // a Wake that has not come to its write yet
	e.finish(t, false)
	e.closed.Store(true)
	e.Stop()
	e.Free()
	if drain(fd) {
		t.Fatal("Free did not close the eventfd")
	}
	occupy(t, fd, other)
	defer unix.Close(fd)
	e.ring() // now it comes
	e.Stop()
	if drain(fd) {
		t.Error("written to after Free")
	}
	e.Free()
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}

// TestFreeZero: a Sleeper without an eventfd closes nothing, least of all descriptor 0.
func TestFreeZero(t *testing.T) {
	if _, err := unix.FcntlInt(0, unix.F_GETFD, 0); err != nil {
		newEvent(t) // takes the lowest number
	}
	var s Sleeper
	s.Free()
	if _, err := unix.FcntlInt(0, unix.F_GETFD, 0); err != nil {
		t.Errorf("descriptor 0 is closed: %v", err)
	}
}

// TestWakeAgainstFree wakes from two goroutines while the endpoint is closed.
func TestWakeAgainstFree(t *testing.T) {
	other := newEvent(t)
	for range 300 {
		e := newEndpoint(t)
		fd := e.WakeFD()
		var wakers sync.WaitGroup
		for range 2 {
			wakers.Go(func() {
				for range 20 {
					e.Wake()
					e.state.Store(asleep) // so that the next one writes too
				}
			})
		}
		e.close()
		occupy(t, fd, other)
		wakers.Wait()
		if drain(fd) {
			t.Error("a Wake wrote to a descriptor of somebody else")
		}
		unix.Close(fd)
	}
}

// meet calls Wake from so many goroutines at the same time as f, again and again, and calls check
// when all have returned.
func meet(t *testing.T, e *endpoint, wakers int, f, check func()) {
	rounds := int64(10_000)
	if invariants.Enabled { // the race detector is slow
		rounds /= 10
	}
	var round, done atomic.Int64
	pause := func(rng *rand.Rand, most int) { // another moment each time
		for range rng.IntN(most) {
			_ = e.closed.Load()
		}
	}
	until := func(n *atomic.Int64, want int64) {
		for spins := 0; n.Load() < want; spins++ {
			if spins%100 == 99 {
				runtime.Gosched()
			}
		}
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer round.Store(rounds)
	for w := range wakers {
		running.Go(func() {
			rng := rand.New(rand.NewPCG(3, uint64(w)))
			for r := range rounds {
				until(&round, r+1)
				pause(rng, 50)
				e.Wake()
				done.Add(1)
			}
		})
	}
	rng := rand.New(rand.NewPCG(3, 99))
	for r := range rounds {
		round.Store(r + 1)
		pause(rng, 500) // the others hear of the round later
		f()
		until(&done, (r+1)*int64(wakers))
		if check(); t.Failed() {
			t.Fatalf("%d wakers, round %d", wakers, r)
		}
	}
}

// TestWakeMeetsPrepare: a Wake at the same moment either keeps the wait from sleeping or makes
// the eventfd readable.
func TestWakeMeetsPrepare(t *testing.T) {
	bound(t)
	for wakers := 1; wakers <= 2; wakers++ {
		e := newEndpoint(t)
		var idle bool
		meet(t, e, wakers, func() { idle, _ = e.Prepare() }, func() {
			if idle != drain(e.WakeFD()) {
				t.Errorf("Prepare = %v, the eventfd is readable: %v", idle, !idle)
			}
			e.finish(t, false)
			if e.state.Load() != awake {
				t.Error("the wait did not answer the Wake")
			}
		})
	}
}

// TestWakeMeetsFinish: a Wake at the same moment is either for this wait or for the next.
func TestWakeMeetsFinish(t *testing.T) {
	bound(t)
	e := newEndpoint(t)
	e.prepare(t, true)
	meet(t, e, 1, func() { e.finish(t, false) }, func() {
		idle, _ := e.Prepare()
		if this := drain(e.WakeFD()); this != idle {
			t.Errorf("the Wake was for this wait: %v, for the next: %v", this, !idle)
		}
		if !idle {
			e.finish(t, false)
			e.prepare(t, true)
		}
	})
	e.finish(t, false)
}

// TestWakePublishes: the Wake that ends a wait passes on what was written before it. The race
// detector would see a missing step of the way.
func TestWakePublishes(t *testing.T) {
	bound(t)
	e := newEndpoint(t)
	for range 100 {
		e.prepare(t, true)
		word := 0
		go func() {
			word = 1
			e.Wake()
		}()
		for sleep(t, &e.Set, -1) == 0 {
		}
		e.finish(t, false)
		if word != 1 {
			t.Fatal("written before Wake, and not seen after the wait")
		}
		drain(e.WakeFD())
	}
}

// TestNoLostWakeUp: each Wake ends a wait, however the two meet. In each round all wakers call
// Wake once, at another moment each time, and the last one must not be lost to an earlier one.
func TestNoLostWakeUp(t *testing.T) {
	for _, wakers := range []int{1, 3} {
		e := newEndpoint(t)
		const rounds = 3000
		var calls atomic.Int64
		var running sync.WaitGroup
		asked := make([]chan struct{}, wakers)
		for w := range asked {
			ask := make(chan struct{}, 1)
			asked[w] = ask
			running.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(wakers), uint64(w)))
				for range ask {
					for range rng.IntN(2000) {
						_ = e.closed.Load()
					}
					calls.Add(1)
					e.Wake()
				}
			})
		}
		guard := time.AfterFunc(hang, func() { // a lost wake-up then shows as ErrClosed
			e.closed.Store(true)
			e.ring()
		})
		for round := range rounds {
			for _, ask := range asked {
				ask <- struct{}{}
			}
			for calls.Load() < int64(wakers*(round+1)) {
				if err := e.Wait(e, -1); err != nil {
					t.Errorf("%d wakers, round %d, %d calls: %v", wakers, round, calls.Load(), err)
					break
				}
			}
			if t.Failed() {
				break
			}
		}
		guard.Stop()
		for _, ask := range asked {
			close(ask)
		}
		running.Wait()
	}
}

// TestAllocs: no way through Wait allocates.
func TestAllocs(t *testing.T) {
	bound(t)
	if invariants.Enabled {
		t.Skip("the race detector allocates")
	}
	e := newEndpoint(t)
	wait := func(timeout time.Duration) {
		if err := e.Wait(e, timeout); err != nil {
			t.Error(err)
		}
	}
	for name, f := range map[string]func(){
		"timeout 0":       func() { wait(0) },
		"timeout":         func() { wait(1) },
		"woken before":    func() { e.Wake(); wait(-1) },
		"woken meanwhile": func() { e.state.Store(asleep); e.Wake(); e.state.Store(awake); wait(-1) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
