package afxdp

import (
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/rawudp"
	"github.com/userspace-rpc/erpc/transport/rawudp/rawtest"
	"github.com/userspace-rpc/erpc/transport/rawudp/vethtest"
	"golang.org/x/sys/unix"
)

const (
	benchSize  = 48 // bytes of payload
	benchBurst = 32 // packets
)

// names are the sides of a contest: raw sockets, raw sockets that look into what they get, the
// transport.
var names = [3]string{"raw", "look", "ours"}

// side is one way to use a pair of endpoints.
type side struct {
	near func(n int) // does n operations and waits for their end, on the benchmark's thread
	far  func()      // called over and over on a thread of its own, meanwhile
}

// newPair opens a pair of endpoints across a link of its own.
func newPair(b *testing.B, mode Mode, mtu int) (near, far *Conn) {
	p := vethtest.New(b, 3500)
	cfg := Config{Mode: mode, MTU: mtu}
	near, far = listenOn(b, p.A, p.A.IP4, cfg), listenOn(b, p.B, p.B.IP4, cfg)
	rawtest.Meet(b, near, far)
	return near, far
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

// contest does b.N operations both ways, slice by slice in turn, since what the machine can do
// changes from one second to the next. It returns how long the slices took, and reports how long a
// cache line takes to the other processor and back: not always the same on a virtual machine, and
// only who looks into packets feels it.
func contest(b *testing.B, slice int, sides [3]side) (took [3][]time.Duration) {
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
	near := float64(time.Since(began)) / bounces
	defer func() { b.ReportMetric(near, "line-ns") }() // ResetTimer forgets it
	for i := range sides {                             // warm
		turn.Store(uint32(i))
		sides[i].near(slice)
	}
	b.ResetTimer()
	for range max(1, b.N/slice) {
		for i := range sides {
			turn.Store(uint32(i))
			began := time.Now()
			sides[i].near(slice)
			took[i] = append(took[i], time.Since(began))
		}
	}
	b.StopTimer()
	return took
}

func quantile(took []time.Duration, q float64) float64 {
	slices.Sort(took)
	return float64(took[int(q*float64(len(took)-1))])
}

// reportRates reports the median rates of contest's slices of count packets of size bytes.
func reportRates(b *testing.B, took [3][]time.Duration, count, size int) {
	var rate [3]float64
	for i, name := range names {
		rate[i] = float64(count) / quantile(took[i], 0.5) * 1e3
		b.ReportMetric(rate[i], name+"-M/s")
		b.ReportMetric(rate[i]*float64(size)*8/1e3, name+"-Gbit/s")
	}
	b.ReportMetric(rate[2]/rate[0], "ours/raw")
}

func inModes(b *testing.B, f func(b *testing.B, mode Mode)) {
	for _, mode := range []Mode{ModeGeneric, ModeNative} {
		b.Run(mode.String(), func(b *testing.B) { f(b, mode) })
	}
}

// BenchmarkPingPong sends one packet to and fro, both sides spinning.
func BenchmarkPingPong(b *testing.B) {
	inModes(b, func(b *testing.B, mode Mode) {
		var took [3][]time.Duration
		timed := func(i int, f func()) func(int) {
			return func(n int) {
				for range n {
					began := time.Now()
					f()
					took[i] = append(took[i], time.Since(began))
				}
			}
		}
		var sides [3]side
		for i, look := range []bool{false, true} {
			a, z := newPair(b, mode, 0)
			near, far := newRaw(a, z, benchSize, look), newRaw(z, a, benchSize, look)
			sides[i] = side{timed(i, func() {
				near.send(1)
				for near.take(1) == 0 {
				}
			}), func() {
				if far.take(1) > 0 {
					far.send(1)
				}
			}}
		}
		x, y := newPair(b, mode, 0)
		pkts := make([]transport.RxPacket, benchBurst)
		items := []transport.TxItem{{Dst: y.LocalAddr(), Head: make([]byte, benchSize)}}
		sides[2] = side{timed(2, func() {
			send(b, x, items)
			for poll(b, x, pkts) == 0 {
			}
		}), echo(b, y)}
		contest(b, 2000, sides)
		for i, name := range names {
			b.ReportMetric(quantile(took[i], 0.5)/1e3, name+"-p50-us")
			b.ReportMetric(quantile(took[i], 0.99)/1e3, name+"-p99-us")
		}
		b.ReportMetric(quantile(took[2], 0.5)/quantile(took[0], 0.5), "p50-ours/raw")
	})
}

func send(b *testing.B, c *Conn, items []transport.TxItem) int {
	n, err := c.TxBurst(items)
	if err != nil {
		b.Error(err)
	}
	return n
}

func poll(b *testing.B, c *Conn, pkts []transport.RxPacket) int {
	n, err := c.RxBurst(pkts)
	if err != nil {
		b.Error(err)
	}
	return n
}

// echo returns a function that answers one burst.
func echo(b *testing.B, c *Conn) func() {
	pkts, items := make([]transport.RxPacket, benchBurst), make([]transport.TxItem, benchBurst)
	return func() {
		n := poll(b, c, pkts)
		for i := range n {
			items[i] = transport.TxItem{Dst: pkts[i].From, Head: pkts[i].Data}
		}
		for left := items[:n]; len(left) > 0 && !b.Failed(); {
			left = left[send(b, c, left):]
		}
	}
}

// BenchmarkEcho keeps two bursts of packets under way. An operation is a packet sent and echoed.
func BenchmarkEcho(b *testing.B) {
	inModes(b, func(b *testing.B, mode Mode) {
		var sides [3]side
		for i, look := range []bool{false, true} {
			a, z := newPair(b, mode, 0)
			near, far := newRaw(a, z, benchSize, look), newRaw(z, a, benchSize, look)
			sides[i] = side{echoed(near.send, near.take), func() {
				if n := far.take(benchBurst); n > 0 {
					far.send(n)
				}
			}}
		}
		x, y := newPair(b, mode, 0)
		items, pkts := itemsTo(y, benchSize), make([]transport.RxPacket, benchBurst)
		sides[2] = side{echoed(
			func(n int) int { return send(b, x, items[:n]) },
			func(n int) int { return poll(b, x, pkts[:n]) },
		), echo(b, y)}
		const slice = 2000
		reportRates(b, contest(b, slice, sides), slice, benchSize)
	})
}

// echoed returns a function that sends packets and takes the answers.
func echoed(send, take func(n int) int) func(n int) {
	return func(n int) {
		for sent, got := 0, 0; got < n; {
			if sent-got <= benchBurst && sent < n {
				sent += send(min(benchBurst, n-sent))
			}
			got += take(benchBurst)
		}
	}
}

func itemsTo(c *Conn, size int) []transport.TxItem {
	items, data := make([]transport.TxItem, benchBurst), make([]byte, size)
	for i := range items {
		items[i] = transport.TxItem{Dst: c.LocalAddr(), Head: data[:24], Data: data[24:]}
	}
	return items
}

// BenchmarkOneWay sends packets without answers, as fast as the receiver takes them.
func BenchmarkOneWay(b *testing.B) {
	for _, size := range []int{benchSize, 1400, 3400} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			inModes(b, func(b *testing.B, mode Mode) {
				const slice = 2000
				x, y := newPair(b, mode, max(size, rawudp.MinMTU))
				items, pkts := itemsTo(y, size), make([]transport.RxPacket, 64)
				ours := oneWay(
					func(n int) int { return send(b, x, items[:n]) },
					func() int { return poll(b, y, pkts) },
				)
				reportRates(b, contest(b, slice,
					[3]side{rawOneWay(b, mode, size, false), rawOneWay(b, mode, size, true), ours}), slice, size)
			})
		})
	}
}

// rawOneWay returns the raw side of packets of size bytes without answers.
func rawOneWay(b *testing.B, mode Mode, size int, look bool) side {
	a, z := newPair(b, mode, 0)
	near, far := newRaw(a, z, size, look), newRaw(z, a, size, look)
	return oneWay(near.send, func() int { return far.take(64) })
}

// oneWay returns a side that sends packets and keeps no more under way than the receiver has room
// for.
func oneWay(send func(n int) int, take func() int) side {
	var got atomic.Int64 // all of them
	all := 0
	return side{func(n int) {
		for end := all + n; int(got.Load()) < end; {
			if left := end - all; left > 0 && all-int(got.Load()) <= DefaultRing/2 {
				all += send(min(benchBurst, left))
			}
		}
	}, func() {
		if n := take(); n > 0 {
			got.Add(int64(n))
		}
	}}
}
