//go:build linux

package ud

import (
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
)

// benchTurns is how often each contender measures, in turns; medians count.
const benchTurns = 5

func medianOf(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}

// echo sends back what arrives at tr until stop.
func echo(tr transport.Transport, stop *atomic.Bool, failed chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pkts, items := make([]transport.RxPacket, 64), make([]transport.TxItem, 0, 64)
	for !stop.Load() {
		n, err := tr.RxBurst(pkts)
		for i := range pkts[:n] {
			items = append(items, transport.TxItem{Dst: pkts[i].From, Head: pkts[i].Data})
		}
		for left := items; len(left) > 0 && err == nil; {
			var n int
			n, err = tr.TxBurst(left)
			left = left[n:]
		}
		tr.Flush()
		items = items[:0]
		if err != nil {
			failed <- err
			return
		}
	}
	failed <- nil
}

// round is one measurement: latencies in ns if one packet was in flight, and packets per second.
type round struct{ p50, rate float64 }

// contender runs count exchanges with window of them in flight, batch at a time.
type contender func(count, window, batch int) round

// measure runs body with a client side that moves packets: issue starts n exchanges, progress
// says how many ended.
func measure(b *testing.B, count, window, batch int, lossy bool, issue func(n int) error,
	progress func() (int, error)) round {
	var times []float64
	begin := monotime.Now()
	sent, done, last := 0, 0, begin
	for done < count {
		if free := window - (sent - done); free >= batch && sent < count {
			if err := issue(batch); err != nil {
				b.Fatal(err)
			}
			sent += batch
		}
		n, err := progress()
		if err != nil {
			b.Fatal(err)
		}
		now := monotime.Now()
		if n > 0 {
			if window == 1 {
				times = append(times, float64(now.Sub(last)))
			}
			done, last = done+n, now
		} else if lossy && now.Sub(last) > 50*time.Millisecond { // lost
			done, last = sent, now
		}
	}
	r := round{rate: float64(done) / monotime.Now().Sub(begin).Seconds()}
	if window == 1 {
		r.p50 = medianOf(times)
	}
	return r
}

// packets returns a contender that exchanges bare packets over a and b.
func packets(b *testing.B, x, y transport.Transport, size int) contender {
	var stop atomic.Bool
	failed := make(chan error, 1)
	if _, err := x.Resolve(y.LocalAddr().String()); err != nil {
		b.Fatal(err)
	}
	return func(count, window, batch int) round {
		stop.Store(false)
		go echo(y, &stop, failed)
		defer func() {
			stop.Store(true)
			if err := <-failed; err != nil {
				b.Error(err)
			}
		}()
		pkts := make([]transport.RxPacket, 64)
		items := make([]transport.TxItem, batch)
		for i := range items {
			items[i] = transport.TxItem{Dst: y.LocalAddr(), Head: make([]byte, size)}
		}
		return measure(b, count, window, batch, true, func(n int) error {
			for left := items[:n]; len(left) > 0; {
				n, err := x.TxBurst(left)
				if err != nil {
					return err
				}
				left = left[n:]
			}
			x.Flush()
			return nil
		}, func() (int, error) { return x.RxBurst(pkts) })
	}
}

// benchRpc opens an Rpc on addr that echoes.
func benchRpc(b *testing.B, addr string) *erpc.Rpc {
	n, err := erpc.NewNexus(erpc.Config{Wait: erpc.WaitSpin, Slots: 64, Credits: 64})
	if err != nil {
		b.Fatal(err)
	}
	if err := n.Register(1, erpc.Dispatch,
		func(h erpc.ReqHandle) { _ = h.RespondBytes(h.Data()) }); err != nil {
		b.Fatal(err)
	}
	c, err := Listen(addr, Config{})
	if err != nil {
		b.Fatal(err)
	}
	r, err := n.NewRpc(c)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		r.Close()
		n.Close()
	})
	return r
}

// rpcs returns a contender that makes RPCs of size bytes each way.
func rpcs(b *testing.B, size int) contender {
	client, server := benchRpc(b, hostA), benchRpc(b, hostB)
	s, err := client.CreateSession(server.LocalAddr().String())
	if err != nil {
		b.Fatal(err)
	}
	for !s.Connected() {
		for _, r := range []*erpc.Rpc{client, server} {
			if _, err := r.RunOnce(); err != nil {
				b.Fatal(err)
			}
		}
	}
	ended := 0
	free := make([][2]*erpc.MsgBuffer, 0, 64)
	done := func(c erpc.Completion) {
		if c.Err != nil {
			b.Error(c.Err)
		}
		ended++
		free = append(free, [2]*erpc.MsgBuffer{c.Req, c.Resp})
	}
	for range 64 {
		req, err := client.Alloc(size)
		if err != nil {
			b.Fatal(err)
		}
		resp, err := client.Alloc(size)
		if err != nil {
			b.Fatal(err)
		}
		free = append(free, [2]*erpc.MsgBuffer{req, resp})
	}
	var stop atomic.Bool
	over := make(chan error, 1)
	return func(count, window, batch int) round {
		stop.Store(false)
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for !stop.Load() {
				if _, err := server.RunOnce(); err != nil {
					over <- err
					return
				}
			}
			over <- nil
		}()
		defer func() {
			stop.Store(true)
			if err := <-over; err != nil {
				b.Error(err)
			}
		}()
		return measure(b, count, window, batch, false, func(n int) error {
			for range n {
				buf := free[len(free)-1]
				free = free[:len(free)-1]
				if _, err := client.EnqueueRequest(s,
					erpc.Request{Type: 1, Req: buf[0], Resp: buf[1], Done: done}); err != nil {
					return err
				}
			}
			return nil
		}, func() (int, error) {
			ended = 0
			_, err := client.RunOnce()
			return ended, err
		})
	}
}

// BenchmarkRPC compares RPCs with bare queue pairs and with the transport alone, in one
// run and in turns: one at a time, and 32 in flight in batches of 8.
func BenchmarkRPC(b *testing.B) {
	needLab(b)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const size, header = 32, 24
	open := func(addr string) transport.Transport {
		r, err := ListenRaw(addr, Config{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { r.Close() })
		return r
	}
	bare := packets(b, open(hostA), open(hostB), size+header)
	ta, tb := listenAt(b, hostA, Config{}), listenAt(b, hostB, Config{})
	plain := packets(b, ta, tb, size+header)
	rpc := rpcs(b, size)
	for b.Loop() {
		var p50, rate [3][]float64
		for range benchTurns {
			for i, c := range []contender{bare, plain, rpc} {
				p50[i] = append(p50[i], c(2000, 1, 1).p50)
				rate[i] = append(rate[i], c(20_000, 32, 8).rate)
			}
		}
		for i, name := range []string{"raw", "ud", "rpc"} {
			b.ReportMetric(medianOf(p50[i])/1e3, name+"-p50-us")
			b.ReportMetric(medianOf(rate[i]), name+"/s")
		}
		b.ReportMetric(medianOf(p50[2])/medianOf(p50[0]), "p50-ratio")
		b.ReportMetric(medianOf(rate[2])/medianOf(rate[0]), "rate-ratio")
	}
	b.ReportMetric(0, "ns/op")
}
