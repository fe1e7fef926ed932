package erpc

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc/internal/engine"
	"github.com/userspace-rpc/erpc/internal/memsize"
)

// TestMemoryDefault: without a limit of its own a Nexus shares a quarter of what the process may
// use with all others; with one it has that alone.
func TestMemoryDefault(t *testing.T) {
	a, b := bookOf(&Config{}), bookOf(&Config{})
	if a.Budget() != b.Budget() || a == b {
		t.Error("two Nexus have two limits")
	}
	if all := memsize.Limit(); all > 0 && a.Budget().Limit() != all/4 {
		t.Errorf("the limit is %d of %d", a.Budget().Limit(), all)
	}
	own := bookOf(&Config{MemoryLimit: 1 << 20, Shares: Shares{Off: true}})
	if own.Budget() == a.Budget() || own.Budget().Limit() != 1<<20 {
		t.Errorf("with a limit of its own: %d bytes", own.Budget().Limit())
	}
}

// TestSharesDefault: what counts together by default, and that other bits stay.
func TestSharesDefault(t *testing.T) {
	def, wide := Shares{}, Shares{IPv4Bits: 24, IPv6Bits: 48}
	if err := def.fill(); err != nil || def != (Shares{IPv4Bits: 32, IPv6Bits: 64}) {
		t.Errorf("%+v, %v", def, err)
	}
	if err := wide.fill(); err != nil || wide != (Shares{IPv4Bits: 24, IPv6Bits: 48}) {
		t.Errorf("%+v, %v", wide, err)
	}
}

// TestScarceTrims: when memory is scarce an endpoint gives back what it does not use, also that of
// background handlers, and else it keeps it.
func TestScarceTrims(t *testing.T) {
	st := newStub(t, Config{MemoryLimit: 16 << 20, NoHugepages: true})
	budget := st.nexus.memory.Budget()
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
		scarce := budget.Used() > budget.Limit()*3/4
		if scarce != (n == 120) {
			t.Fatalf("%d buffers: scarce is %v", n, scarce)
		}
		for range 2 {
			st.pass(time.Second)
		}
		if left := budget.Used(); (left == 0) != scarce {
			t.Errorf("%d buffers: %d bytes are left", n, left)
		}
	}
}

// BenchmarkWorkers hands one job after the other to the workers.
func BenchmarkWorkers(b *testing.B) {
	p := newWorkerPool(&engine.Shares{}, 4, 64)
	work := &addrWork{line: p.open(stubAddrOf(0))}
	done := make(chan *job, 64)
	for range 32 {
		j := &job{work: work}
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
