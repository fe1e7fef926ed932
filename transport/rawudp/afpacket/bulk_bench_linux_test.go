package afpacket

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/rawudp"
	"golang.org/x/sys/unix"
)

// BenchmarkBulk makes calls with requests of 8 MiB, one after the other, in turns with the same
// bytes sent raw in trains of packets of the same size, since what the machine can do changes from
// one second to the next. An operation is one request, and its bytes raw: once as trains that are
// always the same bytes and that nobody reads, and once ("copied") from a message in memory to
// another one, which is the least that carrying a message takes. Credits are how many packets may
// be in flight.
func BenchmarkBulk(b *testing.B) {
	const message = 8 << 20
	for _, size := range []int{1400, 8900} {
		for _, credits := range []int{32, 128, 256} {
			b.Run(fmt.Sprintf("mtu=%d/credits=%d", size, credits), func(b *testing.B) {
				raw := rawBulk(b, size, message)
				calls := callBulk(b, size, credits, message)
				contest(b, message, raw, copyBulk(b, size, message), calls)
			})
		}
	}
}

// side is one way to move a message.
type side struct {
	near func() // moves one and waits for its end, on the benchmark's thread
	far  func() // called over and over on a thread of its own, meanwhile
}

// pin keeps the calling goroutine on a processor of its own.
func pin(b *testing.B, cpu int) (undo func()) {
	runtime.LockOSThread()
	var old, set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &old); err != nil {
		b.Error(err)
	}
	set.Set(cpu)
	_ = unix.SchedSetaffinity(0, &set) // there may be only one processor
	return func() {
		if unix.SchedSetaffinity(0, &old) == nil {
			runtime.UnlockOSThread()
		}
	}
}

// contest moves b.N messages raw, copied and by calls, in turns, and reports the medians and how
// long a cache line takes to the other processor and back.
func contest(b *testing.B, message int, sides ...side) {
	var turn, stop, line atomic.Uint32
	done := make(chan struct{})
	const bounces = 20_000
	go func() {
		defer close(done)
		defer pin(b, 1)()
		for i := range uint32(bounces) {
			for line.Load() != 2*i+1 {
			}
			line.Store(2*i + 2)
		}
		for stop.Load() == 0 {
			sides[turn.Load()].far()
		}
	}()
	defer func() {
		stop.Store(1)
		<-done
	}()
	defer pin(b, 0)()
	began := time.Now()
	for i := range uint32(bounces) {
		line.Store(2*i + 1)
		for line.Load() != 2*i+2 {
		}
	}
	bounce := float64(time.Since(began)) / bounces
	var took [3][]time.Duration
	for range b.N + 1 { // the first is no measurement
		for i := range sides {
			turn.Store(uint32(i))
			began := time.Now()
			sides[i].near()
			took[i] = append(took[i], time.Since(began))
		}
	}
	b.StopTimer()
	var rate [3]float64
	for i, name := range []string{"raw", "copied", "rpc"} {
		rate[i] = float64(message) * 8 / float64(middle(took[i][1:]))
		b.ReportMetric(rate[i], name+"-Gbit/s")
	}
	b.ReportMetric(rate[2]/rate[0], "rpc/raw")
	b.ReportMetric(rate[2]/rate[1], "rpc/copied")
	b.ReportMetric(bounce, "line-ns")
}

// rawBulk returns the raw side: trains of up to 64 KB, four in a call, no more under way than the
// ring has room for.
func rawBulk(b *testing.B, size, message int) side {
	x := newBench(b, 9000, Config{})
	train := min((maxFrame-rawudp.MaxHeader)/size, 64)
	frame := frameTo(x.a, x.b, train, size)
	trains := (message + train*size - 1) / (train * size)
	var got atomic.Int64
	all := 0
	return side{func() {
		for end := all + trains; int(got.Load()) < end; {
			if left := end - all; left > 0 && all-int(got.Load()) <= 32 {
				all += rawSend(x.a.dev, frame, min(4, left))
			}
		}
	}, func() {
		if n := rawTake(x.b.dev, 64); n > 0 {
			got.Add(int64(n))
		}
	}}
}

// copyBulk is rawBulk with the bytes of a message, which the far side copies into another one.
func copyBulk(b *testing.B, size, message int) side {
	x := newBench(b, 9000, Config{})
	d := x.a.dev
	train := min((maxFrame-rawudp.MaxHeader)/size, 64) * size
	from, to := make([]byte, message), make([]byte, message)
	l, far := d.local, x.b.dev.local
	l.MAC, far.MAC = x.a.Link().MAC, x.b.Link().MAC
	codec, err := rawudp.NewCodec(l)
	if err != nil {
		b.Fatal(err)
	}
	t := codec.Template(far.IP)
	var got atomic.Int64
	frames := make([]rawudp.RxFrame, 64)
	sent, taken := 0, 0
	return side{func() {
		for off := 0; off < message; {
			if sent-int(got.Load()) > 32*train {
				continue
			}
			list, n := d.Reserve(4), 0
			for at := off; n < len(list) && at < message; n++ {
				f, end := &list[n], min(at+train, message)
				f.Header = codec.Put(f.Mem, &t, far.MAC, far.Port, end-at)
				f.Len, f.L4, f.Partial, f.Segment = f.Header, codec.L4(), true, size
				f.Pieces = append(f.Pieces, from[at:end])
				at = end
			}
			n, err := d.Send(n)
			if err != nil {
				b.Fatal(err)
			}
			end := min(off+n*train, message)
			sent, off = sent+end-off, end
		}
		for sent > int(got.Load()) {
		}
	}, func() {
		n, err := x.b.dev.Receive(frames)
		if err != nil {
			b.Error(err)
		}
		for _, f := range frames[:n] {
			data := f.Data[codec.HeaderSize():]
			copy(to[taken%message:], data)
			taken += len(data)
		}
		if n > 0 {
			got.Store(int64(taken))
		}
	}}
}

// callBulk returns a side that makes calls with requests of so many bytes.
func callBulk(b *testing.B, mtu, credits, bytes int) side {
	x := newBench(b, 9000, Config{MTU: mtu})
	nexus, err := erpc.NewNexus(erpc.Config{Credits: credits})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { nexus.Close() })
	if err := nexus.Register(1, erpc.Dispatch,
		func(r erpc.ReqHandle) { _ = r.RespondBytes(r.Data()[:32]) }); err != nil {
		b.Fatal(err)
	}
	near, err := nexus.NewRpc(x.a)
	if err != nil {
		b.Fatal(err)
	}
	far, err := nexus.NewRpc(x.b)
	if err != nil {
		b.Fatal(err)
	}
	s, err := near.CreateSessionTo(x.b.LocalAddr())
	if err != nil {
		b.Fatal(err)
	}
	step := func(r *erpc.Rpc) {
		if _, err := r.RunOnce(); err != nil {
			b.Error(err)
		}
	}
	for !s.Connected() {
		step(near)
		step(far)
	}
	req, _ := near.Alloc(bytes)
	resp, _ := near.Alloc(32)
	done := false
	finish := func(c erpc.Completion) {
		if done = true; c.Err != nil || c.Resp.Size() != 32 {
			b.Error(c.Err)
		}
	}
	return side{func() {
		done = false
		if _, err := near.EnqueueRequest(s,
			erpc.Request{Type: 1, Req: req, Resp: resp, Done: finish}); err != nil {
			b.Error(err)
			return
		}
		for !done && !b.Failed() {
			step(near)
		}
	}, func() { step(far) }}
}
