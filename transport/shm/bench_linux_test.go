package shm

import (
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"golang.org/x/sys/unix"
)

// pin ties the calling goroutine to a thread and the thread to a core. The
// thread ends with the goroutine.
func pin(core int) {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(core % runtime.NumCPU())
	_ = unix.SchedSetaffinity(0, &set)
}

// beside runs other on core 1 while main runs on core 0.
func beside(other func(stop *atomic.Bool), main func()) {
	var stop atomic.Bool
	ended := make(chan struct{}, 2)
	go func() {
		defer func() { ended <- struct{}{} }()
		pin(1)
		other(&stop)
	}()
	go func() {
		defer func() { ended <- struct{}{} }()
		pin(0)
		main()
		stop.Store(true)
	}()
	<-ended
	<-ended
}

// blocks times blocks of operations: on a machine that others use too, the median block
// says more than the mean, and the best one what the code itself takes.
type blocks struct {
	start time.Time
	count int
	took  []float64 // ns per operation
}

const blockSize = 4096

// done counts n operations.
func (k *blocks) done(n int) {
	if k.start.IsZero() {
		k.start = time.Now()
		return
	}
	if k.count += n; k.count >= blockSize {
		now := time.Now()
		k.took = append(k.took, float64(now.Sub(k.start))/float64(k.count))
		k.start, k.count = now, 0
	}
}

func (k *blocks) report(b *testing.B) {
	if len(k.took) == 0 {
		return
	}
	slices.Sort(k.took)
	b.ReportMetric(k.took[len(k.took)/2], "p50-ns/op")
	b.ReportMetric(k.took[len(k.took)/20], "p5-ns/op")
}

// joined returns two endpoints with a connection.
func joined(tb testing.TB, cfg Config) (a, b *Conn) {
	tb.Helper()
	cfg = meeting(tb, cfg)
	a, b = listen(tb, "a", cfg), listen(tb, "b", cfg)
	if _, err := a.Resolve("b"); err != nil {
		tb.Fatal(err)
	}
	a.tx.patience, b.tx.patience = time.Hour, time.Hour // nothing may be dropped
	return a, b
}

// echo sends back what c gets, in bursts, until stop.
func echo(c *Conn, stop *atomic.Bool) {
	pkts := make([]transport.RxPacket, 64)
	items := make([]transport.TxItem, 64)
	for !stop.Load() {
		n, _ := c.RxBurst(pkts)
		for i, p := range pkts[:n] {
			items[i] = transport.TxItem{Dst: p.From, Head: p.Data[:24], Data: p.Data[24:]}
		}
		for sent := 0; sent < n; {
			k, err := c.TxBurst(items[sent:n])
			if err != nil {
				return
			}
			sent += k
		}
	}
}

// BenchmarkPingPong measures one 56-byte packet there and back, both sides spinning.
func BenchmarkPingPong(b *testing.B) {
	for _, ring := range []int{64 << 10, 2 << 20} {
		b.Run(fmt.Sprintf("ring=%dK", ring>>10), func(b *testing.B) {
			x, y := joined(b, Config{Ring: ring, MTU: 4096 - 8})
			took := make([]time.Duration, 0, b.N)
			items := []transport.TxItem{{Dst: y.LocalAddr(), Head: make([]byte, 24), Data: make([]byte, 32)}}
			pkts := make([]transport.RxPacket, 32)
			beside(func(stop *atomic.Bool) { echo(y, stop) }, func() {
				b.ResetTimer()
				for range b.N {
					start := time.Now()
					_, _ = x.TxBurst(items)
					for n := 0; n == 0; {
						n, _ = x.RxBurst(pkts)
					}
					took = append(took, time.Since(start))
				}
				b.StopTimer()
			})
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
			b.ReportMetric(float64(took[len(took)*99/100]), "p99-ns")
		})
	}
}

// BenchmarkSymmetric: both sides issue requests and serve the other's, 56 bytes each way,
// with up to 60 under way. An operation is one request issued, answered and received.
func BenchmarkSymmetric(b *testing.B) {
	for _, ring := range []int{64 << 10, 2 << 20} {
		for _, batch := range []int{3, 16} {
			b.Run(fmt.Sprintf("ring=%dK/batch=%d", ring>>10, batch), func(b *testing.B) {
				x, y := joined(b, Config{Ring: ring, MTU: 4096 - 8})
				beside(func(stop *atomic.Bool) { symmetric(y, x.LocalAddr(), batch, -1, stop) }, func() {
					var never atomic.Bool
					b.ResetTimer()
					k := symmetric(x, y.LocalAddr(), batch, b.N, &never)
					k.report(b)
					b.StopTimer()
				})
			})
		}
	}
}

// symmetric issues n requests, or requests until stop, and serves.
func symmetric(c *Conn, to transport.Addr, batch, n int, stop *atomic.Bool) (k blocks) {
	const window = 60
	pkts := make([]transport.RxPacket, 64)
	items := make([]transport.TxItem, 0, 128)
	req, resp := make([]byte, 24), make([]byte, 24)
	resp[0] = 1
	body := make([]byte, 32)
	issued, done := 0, 0
	for done != n && !stop.Load() {
		items = items[:0]
		for i := 0; i < batch && issued-done < window && issued != n; i++ {
			items = append(items, transport.TxItem{Dst: to, Head: req, Data: body})
			issued++
		}
		got, _ := c.RxBurst(pkts)
		for i := range pkts[:got] {
			if pkts[i].Data[0] == 1 {
				done++
				k.done(1)
			} else {
				items = append(items, transport.TxItem{Dst: to, Head: resp, Data: pkts[i].Data[24:]})
			}
		}
		for left := items; len(left) > 0 && !stop.Load(); {
			taken, _ := c.TxBurst(left)
			left = left[taken:]
		}
	}
	return k
}

// BenchmarkOneWay sends 56-byte packets one way in bursts.
func BenchmarkOneWay(b *testing.B) {
	for _, burst := range []int{1, 4, 16, 32} {
		b.Run(fmt.Sprintf("burst=%d", burst), func(b *testing.B) {
			x, y := joined(b, Config{})
			oneWay(b, x, y, burst, 32)
		})
	}
}

// BenchmarkBulk sends 8 MiB messages in packets of several sizes. The receiver copies
// them into place, as the library does.
func BenchmarkBulk(b *testing.B) {
	for _, ring := range []int{512 << 10, 1 << 20, 2 << 20, 4 << 20} {
		for _, mtu := range []int{8 << 10, 16 << 10, 32 << 10, 64 << 10} {
			b.Run(fmt.Sprintf("ring=%dK/mtu=%dK", ring>>10, mtu>>10), func(b *testing.B) {
				x, y := joined(b, Config{Ring: ring, MTU: mtu - 8})
				bulk(b, x, y)
			})
		}
	}
}

func oneWay(b *testing.B, x, y *Conn, burst, size int) {
	items := make([]transport.TxItem, burst)
	for i := range items {
		items[i] = transport.TxItem{Dst: y.LocalAddr(), Head: make([]byte, 24), Data: make([]byte, size)}
	}
	var k blocks
	beside(func(stop *atomic.Bool) {
		left := b.N
		b.ResetTimer()
		for left > 0 {
			n, _ := x.TxBurst(items[:min(burst, left)])
			left -= n
		}
		for !stop.Load() {
		}
	}, func() {
		pkts := make([]transport.RxPacket, 64)
		for got := 0; got < b.N-int(x.tx.stats.TxDropped); {
			n, _ := y.RxBurst(pkts)
			got += n
			k.done(n)
		}
		b.StopTimer()
		k.report(b)
	})
}

const messageBytes = 8 << 20

// bulk sends b.N messages of 8 MiB.
func bulk(b *testing.B, x, y *Conn) {
	src, dst := make([]byte, messageBytes), make([]byte, messageBytes)
	head := make([]byte, 24)
	per := x.Caps().MTU - 24
	b.SetBytes(messageBytes)
	beside(func(stop *atomic.Bool) {
		items := make([]transport.TxItem, 0, 4)
		b.ResetTimer()
		for range b.N {
			for at := 0; at < messageBytes; {
				items = items[:0]
				for o := at; o < messageBytes && len(items) < cap(items); o += per {
					items = append(items,
						transport.TxItem{Dst: y.LocalAddr(), Head: head, Data: src[o:min(o+per, messageBytes)]})
				}
				n, _ := x.TxBurst(items)
				at += n * per
			}
		}
		for !stop.Load() {
		}
	}, func() {
		pkts := make([]transport.RxPacket, 32)
		var took []float64
		last := time.Now()
		for left, at := b.N, 0; left > 0; {
			n, _ := y.RxBurst(pkts[:4])
			for i := range pkts[:n] { // the last packet of a message is shorter
				if at += copy(dst[at:], pkts[i].Data[24:]); at == messageBytes {
					left, at = left-1, 0
					now := time.Now()
					took, last = append(took, float64(messageBytes)/float64(now.Sub(last).Nanoseconds())), now
				}
			}
		}
		b.StopTimer()
		slices.Sort(took)
		b.ReportMetric(took[len(took)/2], "p50-GB/s")
		b.ReportMetric(took[len(took)*95/100], "p95-GB/s")
	})
}

// BenchmarkCopy is the reference of BenchmarkBulk: one core copying 8 MiB.
func BenchmarkCopy(b *testing.B) {
	src, dst := make([]byte, messageBytes), make([]byte, messageBytes)
	pinnedOn(0, func() {
		b.SetBytes(messageBytes)
		for b.Loop() {
			copy(dst, src)
		}
	})
}

func pinnedOn(core int, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		pin(core)
		f()
	}()
	<-done
}

// BenchmarkRawLine is the floor for BenchmarkPingPong: a cache line there and back.
func BenchmarkRawLine(b *testing.B) {
	var line [3][64]atomic.Uint64
	beside(func(stop *atomic.Bool) {
		for i := uint64(1); !stop.Load(); {
			if line[0][0].Load() == i {
				line[1][0].Store(i)
				i++
			}
		}
	}, func() {
		b.ResetTimer()
		for i := range b.N {
			line[0][0].Store(uint64(i) + 1)
			for line[1][0].Load() != uint64(i)+1 {
			}
		}
		b.StopTimer()
	})
}

// BenchmarkInstructions measures TxBurst and RxBurst without any cache miss: both
// ends of a connection in turn on one core.
func BenchmarkInstructions(b *testing.B) {
	for _, burst := range []int{1, 3, 16} {
		b.Run(fmt.Sprintf("burst=%d", burst), func(b *testing.B) {
			x, y := joined(b, Config{Ring: 64 << 10, MTU: 4096 - 8})
			items := make([]transport.TxItem, burst)
			for i := range items {
				items[i] = transport.TxItem{Dst: y.LocalAddr(), Head: make([]byte, 24), Data: make([]byte, 32)}
			}
			pkts := make([]transport.RxPacket, 64)
			pinnedOn(0, func() {
				var k blocks
				b.ResetTimer()
				for i := 0; i < b.N; i += burst {
					_, _ = x.TxBurst(items)
					n, _ := y.RxBurst(pkts)
					k.done(n)
				}
				b.StopTimer()
				k.report(b)
			})
		})
	}
}
