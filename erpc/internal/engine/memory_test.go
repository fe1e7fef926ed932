package erpc

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/memsize"
)

// TestMemoryDefault: without a limit of its own a Nexus shares a quarter of what the process may
// use with all others; with one it has that alone.
func TestMemoryDefault(t *testing.T) {
	a, b := bookOf(&Config{}), bookOf(&Config{})
	if a.budget != b.budget || a == b {
		t.Error("two Nexus have two limits")
	}
	if all := memsize.Limit(); all > 0 && a.budget.Limit() != all/4 {
		t.Errorf("the limit is %d of %d", a.budget.Limit(), all)
	}
	own := bookOf(&Config{MemoryLimit: 1 << 20, Shares: Shares{Off: true}})
	if own.budget == a.budget || own.budget.Limit() != 1<<20 || own.fair || !a.fair {
		t.Errorf("with a limit of its own: %d bytes, fair %v", own.budget.Limit(), own.fair)
	}
}

// TestQuota: what one session may keep.
func TestQuota(t *testing.T) {
	const message = 1 << 20
	each := 2 * (message + message/16 + 1<<16)
	for _, c := range []struct {
		limit int64
		slots int
		want  int
	}{
		{1 << 40, 1, each}, {1 << 40, 8, 8 * each}, {64 << 20, 128, 32 << 20}, {1 << 20, 8, each},
	} {
		if got := newMemoryBook(c.limit, true).quota(c.slots, message); got != c.want {
			t.Errorf("limit %d, %d slots: %d, want %d", c.limit, c.slots, got, c.want)
		}
	}
}

// TestScarceTrims: when memory is scarce an endpoint gives back what it does not use, also that of
// background handlers, and else it keeps it.
func TestScarceTrims(t *testing.T) {
	st := newStub(t, Config{MemoryLimit: 16 << 20, NoHugepages: true})
	for _, n := range []int{20, 120} {
		var bufs []*MsgBuffer
		for i := range n {
			alloc := st.Alloc
			if i%2 == 0 {
				alloc = st.allocShared
			}
			b, err := alloc(100_000)
			if err != nil {
				t.Fatal(err)
			}
			bufs = append(bufs, b)
		}
		for _, b := range bufs {
			b.Free()
		}
		scarce := st.engine.quotas.book.scarce()
		if scarce != (n == 120) {
			t.Fatalf("%d buffers: scarce is %v", n, scarce)
		}
		for range 2 {
			st.pass(time.Second)
		}
		if left := st.engine.quotas.book.budget.Used(); (left == 0) != scarce {
			t.Errorf("%d buffers: %d bytes are left", n, left)
		}
	}
}

// BenchmarkWorkers hands one job after the other to the workers.
func BenchmarkWorkers(b *testing.B) {
	p := newWorkerPool(&Shares{}, 4, 64)
	q := &addrQuota{line: p.open(stubAddrOf(0))}
	done := make(chan *job, 64)
	for range 32 {
		j := &job{quota: q}
		j.fn = func(ReqHandle) { done <- j }
		j.handle.job = j
		done <- j
	}
	b.ReportAllocs()
	batch := make([]*job, 1)
	for b.Loop() {
		batch[0] = <-done
		p.submit(batch)
	}
	p.stop()
}
