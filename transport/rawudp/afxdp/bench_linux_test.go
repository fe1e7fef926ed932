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
	"github.com/userspace-rpc/erpc/transport/rawudp/vethtest"
	"golang.org/x/sys/unix"
)

// The raw sides below are the least that a program can do with the same sockets: they poll
// the ring, answer with frames made beforehand in the same memory, and look at nothing in them. What the
// transport adds is the codec with its checksums, the checks, the routes and the copy into the frame.

const benchSize = 48 // bytes of payload

// bench is a pair of endpoints; the raw sides use their sockets.
type bench struct {
	a, b *Conn
	stop atomic.Bool
	done chan struct{}
}

// benches runs f raw and through the transport, in both modes.
func benches(b *testing.B, f func(b *testing.B, x *bench, raw bool)) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, mode := range []Mode{ModeGeneric, ModeNative} {
		for _, raw := range []bool{true, false} {
			name := mode.String() + "/transport"
			if raw {
				name = mode.String() + "/raw"
			}
			b.Run(name, func(b *testing.B) {
				p := vethtest.New(b, 3500)
				cfg := Config{Mode: mode}
				x := &bench{a: listenOn(b, p.A, p.A.IP4, cfg), b: listenOn(b, p.B, p.B.IP4, cfg), done: make(chan struct{})}
				meet(b, x.a, x.b)
				f(b, x, raw)
			})
		}
	}
}

// serve runs the far side, on a thread of its own, until the benchmark ends.
func (x *bench) serve(b *testing.B, step func()) {
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(x.done)
		for !x.stop.Load() {
			step()
		}
	}()
	b.Cleanup(func() {
		x.stop.Store(true)
		<-x.done
	})
}

// rawSide is a socket used with as little as possible.
type rawSide struct {
	*lane
	count int // frames made, in the first chunks for sending
	size  int // of a frame
	put   uint32
}

// newRaw makes frames with size bytes of payload from one endpoint to the other.
func newRaw(from, to *Conn, size int) *rawSide {
	l, far := from.dev.local, to.dev.local
	l.MAC, far.MAC = from.Link().MAC, to.Link().MAC
	codec, err := rawudp.NewCodec(l)
	if err != nil {
		panic(err)
	}
	t := codec.Template(far.IP)
	s := &rawSide{lane: from.dev.out, count: 64}
	s.put = s.pool.filled
	for i := range s.count {
		mem := s.pool.mem[i*chunkSize+lead:]
		s.size = codec.Put(mem, &t, far.MAC, far.Port, size) + size
		codec.Complete(mem[:s.size])
	}
	return s
}

// take gives up to limit received frames back and returns how many there were.
func (s *rawSide) take(limit int) int {
	n := min(limit, int(atomic.LoadUint32(s.rx.producer)-s.got))
	if n == 0 {
		return 0
	}
	fill := &s.pool.fill
	for range n {
		fill.addr[s.put&fill.mask] = s.rx.desc[s.got&s.rx.mask].Addr &^ (chunkSize - 1)
		s.got++
		s.put++
	}
	atomic.StoreUint32(s.rx.consumer, s.got)
	atomic.StoreUint32(fill.producer, s.put)
	s.pool.filled = s.put
	return n
}

// send sends n frames, of those that are not under way, and returns how many.
func (s *rawSide) send(n int) int {
	done := &s.pool.done
	s.pool.taken = atomic.LoadUint32(done.producer)
	atomic.StoreUint32(done.consumer, s.pool.taken)
	n = min(n, s.count-int(s.sent-s.pool.taken))
	for range n {
		at := uint64(s.sent) % uint64(s.count)
		s.tx.desc[s.sent&s.tx.mask] = unix.XDPDesc{Addr: at*chunkSize + lead, Len: uint32(s.size)}
		s.sent++
	}
	atomic.StoreUint32(s.tx.producer, s.sent)
	if s.tx.wantsKick() {
		kick(s.fd)
	}
	return n
}

func reportLatency(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	at := func(q float64) float64 { return float64(took[int(q*float64(len(took)-1))].Nanoseconds()) / 1e3 }
	b.ReportMetric(at(0.5), "p50-us")
	b.ReportMetric(at(0.99), "p99-us")
}

// BenchmarkPingPong sends one packet to and fro, both sides spinning.
func BenchmarkPingPong(b *testing.B) {
	benches(b, func(b *testing.B, x *bench, raw bool) {
		took := make([]time.Duration, 0, b.N)
		if raw {
			near, far := newRaw(x.a, x.b, benchSize), newRaw(x.b, x.a, benchSize)
			x.serve(b, func() {
				if far.take(1) > 0 {
					far.send(1)
				}
			})
			b.ResetTimer()
			for range b.N {
				began := time.Now()
				near.send(1)
				for near.take(1) == 0 {
				}
				took = append(took, time.Since(began))
			}
			reportLatency(b, took)
			return
		}
		x.serve(b, echoStep(b, x.b, 32))
		pkts := make([]transport.RxPacket, 32)
		items := []transport.TxItem{{Dst: x.b.LocalAddr(), Head: make([]byte, benchSize)}}
		b.ResetTimer()
		for range b.N {
			began := time.Now()
			if n, err := x.a.TxBurst(items); n != 1 || err != nil {
				b.Fatal(n, err)
			}
			for n := 0; n == 0; {
				var err error
				if n, err = x.a.RxBurst(pkts); err != nil {
					b.Fatal(err)
				}
			}
			took = append(took, time.Since(began))
		}
		reportLatency(b, took)
	})
}

// echoStep returns a function that answers one burst.
func echoStep(b *testing.B, c *Conn, burst int) func() {
	pkts, items := make([]transport.RxPacket, burst), make([]transport.TxItem, burst)
	return func() {
		n, err := c.RxBurst(pkts)
		if err != nil {
			b.Error(err)
			return
		}
		for i := range n {
			items[i] = transport.TxItem{Dst: pkts[i].From, Head: pkts[i].Data}
		}
		for left := items[:n]; len(left) > 0; {
			k, err := c.TxBurst(left)
			if err != nil {
				b.Error(err)
				return
			}
			left = left[k:]
		}
	}
}

// BenchmarkEcho keeps two bursts of packets under way. An operation is a packet sent and echoed.
func BenchmarkEcho(b *testing.B) {
	const burst = 32
	benches(b, func(b *testing.B, x *bench, raw bool) {
		sent, got := 0, 0
		if raw {
			near, far := newRaw(x.a, x.b, benchSize), newRaw(x.b, x.a, benchSize)
			x.serve(b, func() {
				if n := far.take(burst); n > 0 {
					far.send(n)
				}
			})
			b.ResetTimer()
			for got < b.N {
				if sent-got <= burst {
					sent += near.send(burst)
				}
				got += near.take(burst)
			}
			b.ReportMetric(float64(got)/b.Elapsed().Seconds()/1e6, "M/s")
			return
		}
		x.serve(b, echoStep(b, x.b, burst))
		items, pkts := make([]transport.TxItem, burst), make([]transport.RxPacket, burst)
		mem := make([]byte, benchSize)
		for i := range items {
			items[i] = transport.TxItem{Dst: x.b.LocalAddr(), Head: mem[:24], Data: mem[24:]}
		}
		b.ResetTimer()
		for got < b.N {
			if sent-got <= burst {
				n, err := x.a.TxBurst(items)
				if err != nil {
					b.Fatal(err)
				}
				sent += n
			}
			n, err := x.a.RxBurst(pkts)
			if err != nil {
				b.Fatal(err)
			}
			got += n
		}
		b.ReportMetric(float64(got)/b.Elapsed().Seconds()/1e6, "M/s")
	})
}

// BenchmarkOneWay sends packets without answers, as fast as the receiver takes them.
func BenchmarkOneWay(b *testing.B) {
	for _, size := range []int{benchSize, 1400, 3400} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			benches(b, func(b *testing.B, x *bench, raw bool) { oneWay(b, x, raw, size) })
		})
	}
}

func oneWay(b *testing.B, x *bench, raw bool, size int) {
	const burst = 32
	var got atomic.Int64
	var send func() int
	if raw {
		near, far := newRaw(x.a, x.b, size), newRaw(x.b, x.a, size)
		x.serve(b, func() {
			if n := far.take(64); n > 0 {
				got.Add(int64(n))
			}
		})
		send = func() int { return near.send(burst) }
	} else {
		pkts := make([]transport.RxPacket, 64)
		x.serve(b, func() {
			n, err := x.b.RxBurst(pkts)
			if err != nil {
				b.Error(err)
			}
			if n > 0 {
				got.Add(int64(n))
			}
		})
		items, data := make([]transport.TxItem, burst), make([]byte, size)
		for i := range items {
			items[i] = transport.TxItem{Dst: x.b.LocalAddr(), Head: data[:24], Data: data[24:]}
		}
		send = func() int {
			n, err := x.a.TxBurst(items)
			if err != nil {
				b.Fatal(err)
			}
			return n
		}
	}
	b.SetBytes(int64(size))
	b.ResetTimer()
	for sent := 0; sent < b.N; {
		if int64(sent)-got.Load() <= DefaultRing/2 {
			sent += send()
		}
	}
	b.ReportMetric(float64(got.Load())*float64(size)*8/b.Elapsed().Seconds()/1e9, "Gbit/s")
	b.ReportMetric(float64(got.Load())/b.Elapsed().Seconds()/1e6, "M/s")
}
