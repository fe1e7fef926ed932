package udp

import (
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

// pinned runs f on a pinned thread until it returns.
func pinned(core int, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		pin(core)
		f()
	}()
	<-done
}

// echo sends back what c gets, in bursts, until stop.
func echo(c *Conn, stop *atomic.Bool) {
	pkts := make([]transport.RxPacket, 256)
	items := make([]transport.TxItem, 256)
	for !stop.Load() {
		n, _ := c.RxBurst(pkts)
		for i, p := range pkts[:n] {
			items[i] = transport.TxItem{Dst: p.From, Head: p.Data}
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

// beside runs server on core 1 while client runs on core 0.
func beside(server func(stop *atomic.Bool), client func()) {
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		pinned(1, func() { server(&stop) })
	}()
	pinned(0, client)
	stop.Store(true)
	<-done
}

// BenchmarkPingPong measures one 48-byte packet there and back, both sides spinning.
func BenchmarkPingPong(b *testing.B) {
	for _, v := range []struct{ name, addr string }{
		{"v4", "127.0.0.1:0"}, {"v6", "[::1]:0"}, {"wildcard4", "0.0.0.0:0"}, {"wildcard", ":0"},
	} {
		b.Run(v.name, func(b *testing.B) {
			x, y := listen(b, v.addr, Config{}), listen(b, v.addr, Config{})
			took := make([]time.Duration, 0, b.N)
			items := []transport.TxItem{{Dst: reach(b, x, y), Head: make([]byte, 24),
				Data: make([]byte, 24)}}
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

// BenchmarkRawPingPong is the floor for BenchmarkPingPong: sendto and recvfrom
// and nothing else.
func BenchmarkRawPingPong(b *testing.B) {
	x, y := listen(b, "127.0.0.1:0", Config{NoGRO: true}),
		listen(b, "127.0.0.1:0", Config{NoGRO: true})
	took := make([]time.Duration, 0, b.N)
	turn := func(c *Conn, to transport.Addr, stop *atomic.Bool, send, receive bool) {
		k := c.impl.(*kernelConn)
		var name sockaddr
		name.put(&to, true)
		if send {
			_ = sysSendto(k.fd, k.tx.stage[:48], &name, sockaddr4Len)
		}
		for receive && !stop.Load() && rawRecv(k.fd, k.rx.mem) != 0 {
		}
	}
	beside(func(stop *atomic.Bool) {
		for !stop.Load() {
			turn(y, x.LocalAddr(), stop, false, true)
			turn(y, x.LocalAddr(), stop, true, false)
		}
	}, func() {
		var never atomic.Bool
		b.ResetTimer()
		for range b.N {
			start := time.Now()
			turn(x, y.LocalAddr(), &never, true, true)
			took = append(took, time.Since(start))
		}
		b.StopTimer()
	})
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
	b.ReportMetric(float64(took[len(took)*99/100]), "p99-ns")
}

// BenchmarkEcho measures packets echoed per second, 48 bytes, in windows of 256
// sent as bursts of the given size.
func BenchmarkEcho(b *testing.B) {
	for _, v := range []struct {
		name  string
		burst int
		cfg   Config
		host  string
	}{
		{"train16", 16, Config{}, "127.0.0.1"}, {"train64", 64, Config{}, "127.0.0.1"},
		{"train256", 256, Config{}, "127.0.0.1"},
		{"plain32", 32, Config{NoGSO: true, NoGRO: true}, "127.0.0.1"},
		{"wildcard16", 16, Config{}, "0.0.0.0"}, {"wildcard64", 64, Config{}, "0.0.0.0"},
		{"wildcardplain32", 32, Config{NoGSO: true, NoGRO: true}, "0.0.0.0"},
	} {
		b.Run(v.name, func(b *testing.B) {
			x, y := listen(b, v.host+":0", v.cfg), listen(b, v.host+":0", v.cfg)
			dst := reach(b, x, y)
			items := make([]transport.TxItem, v.burst)
			for i := range items {
				items[i] = transport.TxItem{Dst: dst, Head: make([]byte, 24), Data: make([]byte, 24)}
			}
			pkts := make([]transport.RxPacket, 256)
			beside(func(stop *atomic.Bool) { echo(y, stop) }, func() {
				b.ResetTimer()
				for sent, got := 0, 0; got < b.N; {
					if sent-got <= 256 {
						n, _ := x.TxBurst(items)
						sent += n
					}
					n, _ := x.RxBurst(pkts)
					got += n
				}
				b.StopTimer()
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "M/s")
		})
	}
}

// BenchmarkOneWay measures bandwidth: 1400-byte packets, at most 1 MiB unread.
func BenchmarkOneWay(b *testing.B) {
	for _, v := range []struct {
		name string
		head int // bytes of the packet in Head; the rest is in Data
	}{{"whole", 1400}, {"split", 24}} {
		b.Run(v.name, func(b *testing.B) {
			x, y := listen(b, "127.0.0.1:0", Config{}), listen(b, "127.0.0.1:0", Config{})
			items := make([]transport.TxItem, 46)
			for i := range items {
				items[i] = transport.TxItem{Dst: y.LocalAddr(), Head: make([]byte, v.head),
					Data: make([]byte, 1400-v.head)}
			}
			b.SetBytes(1400)
			var got atomic.Int64
			beside(func(stop *atomic.Bool) {
				pkts := make([]transport.RxPacket, 64)
				for !stop.Load() {
					n, _ := y.RxBurst(pkts)
					if n > 0 {
						got.Add(int64(n))
					}
				}
			}, func() {
				b.ResetTimer()
				for sent := int64(0); got.Load() < int64(b.N); {
					if sent-got.Load() < 1<<20/1400 {
						n, _ := x.TxBurst(items)
						sent += int64(n)
					}
				}
				b.StopTimer()
			})
			b.ReportMetric(float64(b.N)*1400*8/b.Elapsed().Seconds()/1e9, "Gbit/s")
		})
	}
}
