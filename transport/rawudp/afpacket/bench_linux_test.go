package afpacket

import (
	"encoding/binary"
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

// The raw sides below are the least that a program can do with the same sockets: they poll
// the ring, answer with frames made beforehand, and look at nothing in them. The
// transport adds the codec, the checks and the routes.

const benchSize = 48 // bytes of payload

// bench is a pair of endpoints; the raw sides use their devices.
type bench struct {
	a, b *Conn
	stop atomic.Bool
	done chan struct{}
}

func newBench(b *testing.B, mtu int, cfg Config) *bench {
	p := vethtest.New(b, mtu)
	x := &bench{a: listenOn(b, p.A, p.A.IP4, cfg), b: listenOn(b, p.B, p.B.IP4, cfg),
		done: make(chan struct{})}
	rawtest.Meet(b, x.a, x.b)
	return x
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

// frameTo returns a frame of count packets from one endpoint to the other, with the
// virtio header in front, as Send gives it to the kernel.
func frameTo(from, to *Conn, count, size int) []byte {
	d := from.dev
	l, far := d.local, to.dev.local
	l.MAC, far.MAC = from.Link().MAC, to.Link().MAC
	codec, err := rawudp.NewCodec(l)
	if err != nil {
		panic(err)
	}
	t := codec.Template(far.IP)
	f := &d.Reserve(1)[0]
	f.Header = codec.Put(f.Mem, &t, far.MAC, far.Port, count*size)
	f.Len, f.L4, f.Partial, f.Segment = f.Header+count*size, codec.L4(), true, 0
	if count > 1 {
		f.Segment = size
	}
	return append([]byte(nil), d.tx.head(0)...)
}

// rawTake frees up to limit received frames and returns how many there were.
func rawTake(d *device, limit int) (n int) {
	r := &d.rx
	for ; n < limit; n++ {
		s := slotAt(r.mem, r.head*slotSize)
		if s.load()&unix.TP_STATUS_USER == 0 {
			break
		}
		s.free()
		if r.head++; r.head == r.slots {
			r.head = 0
		}
		r.tail = r.head
	}
	return n
}

// rawSend sends frame n times with one call.
func rawSend(d *device, frame []byte, n int) int {
	if n == 1 {
		if sysSend(d.fd, frame) != 0 {
			return 0
		}
		return 1
	}
	for i := range n {
		v := &d.tx.vectors[i*(maxPieces+1)]
		v.Base = &frame[0]
		v.SetLen(len(frame))
		d.tx.msgs[i].hdr.SetIovlen(1)
	}
	k, e := sysSendmmsg(d.fd, d.tx.msgs[:n])
	if e != 0 {
		return 0
	}
	return k
}

// middle returns the median.
func middle(took []time.Duration) time.Duration {
	slices.Sort(took)
	return took[len(took)/2]
}

func reportLatency(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	at := func(q float64) float64 {
		return float64(took[int(q*float64(len(took)-1))].Nanoseconds()) / 1e3
	}
	b.ReportMetric(at(0.5), "p50-us")
	b.ReportMetric(at(0.99), "p99-us")
}

// BenchmarkPingPong sends one packet to and fro, both sides spinning.
func BenchmarkPingPong(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b.Run("raw", func(b *testing.B) {
		x := newBench(b, 1500, Config{})
		there, back := frameTo(x.a, x.b, 1, benchSize), frameTo(x.b, x.a, 1, benchSize)
		x.serve(b, func() {
			if rawTake(x.b.dev, 1) > 0 {
				rawSend(x.b.dev, back, 1)
			}
		})
		took := make([]time.Duration, 0, b.N)
		b.ResetTimer()
		for range b.N {
			began := time.Now()
			rawSend(x.a.dev, there, 1)
			for rawTake(x.a.dev, 1) == 0 {
			}
			took = append(took, time.Since(began))
		}
		reportLatency(b, took)
	})
	b.Run("transport", func(b *testing.B) {
		x := newBench(b, 1500, Config{})
		x.serve(b, echoStep(b, x.b, 32))
		pkts := make([]transport.RxPacket, 32)
		items := []transport.TxItem{{Dst: x.b.LocalAddr(), Head: make([]byte, benchSize)}}
		took := make([]time.Duration, 0, b.N)
		b.ResetTimer()
		for range b.N {
			began := time.Now()
			transmit1(b, x.a, items)
			for {
				n, err := x.a.RxBurst(pkts)
				if err != nil {
					b.Fatal(err)
				}
				if n > 0 {
					break
				}
			}
			took = append(took, time.Since(began))
		}
		reportLatency(b, took)
	})
}

func transmit1(b *testing.B, c *Conn, items []transport.TxItem) {
	for n := 0; n == 0; {
		var err error
		if n, err = c.TxBurst(items); err != nil {
			b.Fatal(err)
		}
	}
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

// BenchmarkEcho keeps packets under way, in trains of several lengths, 4 trains a call and
// twice as many under way. An operation is a packet sent and echoed.
func BenchmarkEcho(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, train := range []int{1, 16, 32, 64} {
		calls := 4 // trains in a call
		if train == 1 {
			calls = 32
		}
		b.Run(fmt.Sprintf("raw/train=%d", train), func(b *testing.B) { rawEcho(b, train, calls) })
		b.Run(fmt.Sprintf("transport/train=%d", train), func(b *testing.B) { connEcho(b, train, calls) })
	}
}

func rawEcho(b *testing.B, train, calls int) {
	x := newBench(b, 1500, Config{})
	there, back := frameTo(x.a, x.b, train, benchSize), frameTo(x.b, x.a, train, benchSize)
	x.serve(b, func() {
		if n := rawTake(x.b.dev, calls); n > 0 {
			rawSend(x.b.dev, back, n)
		}
	})
	b.ResetTimer()
	sent, got := 0, 0
	for got*train < b.N {
		if sent-got <= calls {
			sent += rawSend(x.a.dev, there, calls)
		}
		got += rawTake(x.a.dev, calls)
	}
	b.ReportMetric(float64(got*train)/b.Elapsed().Seconds()/1e6, "M/s")
}

func connEcho(b *testing.B, train, calls int) {
	x := newBench(b, 1500, Config{NoTrains: train == 1})
	// A train ends where the size changes: the last packet of each is a byte shorter.
	burst := train * calls
	x.serve(b, echoStep(b, x.b, burst))
	items, pkts := make([]transport.TxItem, burst), make([]transport.RxPacket, burst)
	mem := make([]byte, benchSize)
	for i := range items {
		items[i] = transport.TxItem{Dst: x.b.LocalAddr(), Head: mem[:24], Data: mem[24:]}
		if train > 1 && i%train == train-1 {
			items[i].Data = mem[24 : benchSize-1]
		}
	}
	b.ResetTimer()
	sent, got := 0, 0
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
}

// BenchmarkOneWay sends large packets without answers, as fast as the receiver takes them.
func BenchmarkOneWay(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, size := range []int{1400, 8900} {
		b.Run(fmt.Sprintf("raw/size=%d", size), func(b *testing.B) { rawOneWay(b, size) })
		b.Run(fmt.Sprintf("transport/size=%d", size), func(b *testing.B) {
			x := newBench(b, 9000, Config{})
			var got atomic.Int64
			pkts := make([]transport.RxPacket, 256)
			x.serve(b, func() {
				n, err := x.b.RxBurst(pkts)
				if err != nil {
					b.Error(err)
				}
				if n > 0 {
					got.Add(int64(n))
				}
			})
			items := make([]transport.TxItem, 46*4)
			data := make([]byte, size)
			for i := range items {
				binary.LittleEndian.PutUint32(data, uint32(i))
				items[i] = transport.TxItem{Dst: x.b.LocalAddr(), Head: data[:24], Data: data[24:]}
			}
			b.SetBytes(int64(size))
			b.ResetTimer()
			sent := 0
			for sent < b.N {
				if int64(sent)-got.Load() > int64(8*len(items)) {
					continue
				}
				n, err := x.a.TxBurst(items)
				if err != nil {
					b.Fatal(err)
				}
				sent += n
			}
			b.ReportMetric(float64(got.Load())*float64(size)*8/b.Elapsed().Seconds()/1e9, "Gbit/s")
		})
	}
}

// rawOneWay sends trains of 64 KB, four in a call.
func rawOneWay(b *testing.B, size int) {
	x := newBench(b, 9000, Config{})
	train := (maxFrame - rawudp.MaxHeader) / size
	frame := frameTo(x.a, x.b, train, size)
	var got atomic.Int64
	x.serve(b, func() {
		if n := rawTake(x.b.dev, 64); n > 0 {
			got.Add(int64(n))
		}
	})
	b.SetBytes(int64(size))
	b.ResetTimer()
	for sent := 0; sent*train < b.N; {
		if int64(sent)-got.Load() <= 32 {
			sent += rawSend(x.a.dev, frame, 4)
		}
	}
	b.ReportMetric(float64(got.Load())*float64(train*size)*8/b.Elapsed().Seconds()/1e9, "Gbit/s")
}
