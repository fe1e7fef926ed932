package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/rawudp/vethtest"
	"github.com/userspace-rpc/erpc/transport/udp"
)

const (
	wide, narrow = 9000, 1400 // MTU of the link in bytes
	headers      = 28         // of IPv4 and UDP
)

// echoAcross serves an echo on a side of a link that counts how often each call ran, by the number
// at the start of its request. The server ends with the test.
func echoAcross(t *testing.T, on *vethtest.Side) (addr string, ran func() map[uint64]int) {
	t.Helper()
	counts := map[uint64]int{}
	srv, err := erpc.NewServer(erpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	err = srv.HandleInline(1, func(h erpc.ReqHandle) {
		counts[binary.LittleEndian.Uint64(h.Data())]++
		_ = h.RespondBytes(h.Data())
	})
	if err != nil {
		t.Fatal(err)
	}
	addr = netip.AddrPortFrom(on.IP4, 31999).String()
	ended := make(chan error, 1)
	go on.Do(func() {
		tr, err := udp.Listen(addr, udp.Config{})
		if err == nil {
			err = srv.Serve(tr)
		}
		ended <- err
	})
	stop := func() {
		_ = srv.Close()
		if err := <-ended; err != nil && !errors.Is(err, erpc.ErrClosed) {
			t.Error(err)
		}
		ended <- nil
	}
	t.Cleanup(stop)
	return addr, func() map[uint64]int {
		stop()
		return counts
	}
}

// narrowed calls an echo across a link of MTU wide, which becomes narrow with calls of size bytes
// under way, and returns the size of the session's packets before and after it. Its goroutine is in
// the client's namespace.
func narrowed(
	t *testing.T, from *vethtest.Side, addr string, size int, lower func(),
) (before, after int) {
	n, err := erpc.NewNexus(erpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	tr, err := udp.Listen(netip.AddrPortFrom(from.IP4, 0).String(), udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := n.NewRpc(tr)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s, err := r.CreateSession(addr)
	if err != nil {
		t.Fatal(err)
	}
	perPacket := func() int { return s.Params().PerPacket }
	id, left := uint64(0), 0
	call := func() {
		req, err := r.Alloc(size)
		if err != nil {
			t.Fatal(err)
		}
		id++
		for i := range req.Data() {
			req.Data()[i] = byte(i) ^ byte(i>>8) ^ byte(id)
		}
		binary.LittleEndian.PutUint64(req.Data(), id)
		left++
		_, err = r.EnqueueRequest(s, erpc.Request{Type: 1, Req: req, Done: func(c erpc.Completion) {
			left--
			if c.Err != nil || !bytes.Equal(c.Req.Data(), c.Resp.Data()) {
				t.Errorf("a call ended with %v", c.Err)
			}
			c.Req.Free()
			if c.Resp != nil {
				c.Resp.Free()
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	finish := func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := r.Run(func() bool { return left == 0 || ctx.Err() != nil }); err != nil {
			t.Error(err)
		}
		if left > 0 {
			t.Errorf("%d calls never ended", left)
		}
	}
	for range 20 {
		call()
	}
	finish()
	before = perPacket()
	for range 8 {
		call()
	}
	lower()
	start := time.Now()
	finish()
	t.Logf("the calls under way ended after %v", time.Since(start))
	call()
	finish()
	return before, perPacket()
}

// TestPathNarrowsAcrossLink: the MTU of the path falls from 9000 to 1400 with calls of 16 kB under
// way, at both ends or in silence at the far one. They end with their responses, each handler has
// run once, and the session's packets fit the path.
func TestPathNarrowsAcrossLink(t *testing.T) {
	for name, both := range map[string]bool{"both ends": true, "far end": false} {
		t.Run(name, func(t *testing.T) {
			p := vethtest.New(t, wide)
			addr, ran := echoAcross(t, p.B)
			var before, after int
			p.A.Do(func() {
				before, after = narrowed(t, p.A, addr, 16_000, func() {
					err := p.B.Handle.LinkSetMTU(p.B.Link(), narrow)
					if both {
						err = errors.Join(err, p.A.Handle.LinkSetMTU(p.A.Link(), narrow))
					}
					if err != nil {
						t.Fatal(err)
					}
				})
			})
			checkNarrowed(t, before, after, ran())
		})
	}
}

// checkNarrowed checks what narrowed returned, and how often each call ran.
func checkNarrowed(t *testing.T, before, after int, ran map[uint64]int) {
	t.Helper()
	if before < 8000 || after > narrow-headers {
		t.Errorf("packets of %d bytes, then of %d", before, after)
	}
	if len(ran) != 29 {
		t.Errorf("%d calls ran", len(ran))
	}
	for id, n := range ran {
		if n != 1 {
			t.Errorf("call %d ran %d times", id, n)
		}
	}
}

// TestHopNarrows: a router between client and server forwards packets of up to 1400 bytes only from
// now on, with calls of several packets under way, and of more than there are credits for. It drops
// a train as a whole if it does not forward one of its packets. The calls end as across a link.
func TestHopNarrows(t *testing.T) {
	for _, size := range []int{16_000, 100_000, 1_000_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			h := vethtest.NewHop(t, wide)
			addr, ran := echoAcross(t, h.B)
			var before, after int
			h.A.Do(func() {
				before, after = narrowed(t, h.A, addr, size, func() {
					if err := h.Narrow(narrow); err != nil {
						t.Fatal(err)
					}
				})
			})
			checkNarrowed(t, before, after, ran())
		})
	}
}

// TestTooLargeForTheFarEnd: packets that the far end of a link does not take are lost, alone and
// among others. They hold no other packet up.
func TestTooLargeForTheFarEnd(t *testing.T) {
	p := vethtest.New(t, wide)
	if err := p.B.Handle.LinkSetMTU(p.B.Link(), narrow); err != nil {
		t.Fatal(err)
	}
	var a, b *udp.Conn
	listen := func(c **udp.Conn, s *vethtest.Side) {
		s.Do(func() {
			var err error
			if *c, err = udp.Listen(netip.AddrPortFrom(s.IP4, 0).String(), udp.Config{}); err != nil {
				t.Fatal(err)
			}
		})
		t.Cleanup(func() { (*c).Close() })
	}
	listen(&a, p.A)
	listen(&b, p.B)
	item := func(n int) transport.TxItem {
		return transport.TxItem{Dst: b.LocalAddr(), Head: make([]byte, n)}
	}
	send := func(items ...transport.TxItem) {
		t.Helper()
		if n, err := a.TxBurst(items); n != len(items) || err != nil {
			t.Fatalf("%d of %d packets were taken, %v", n, len(items), err)
		}
	}
	for range 100 { // the link says so to the sender now and then only
		send(item(5000))
		send(item(5000), item(5000), item(5000))
	}
	send(item(10))
	send(item(11), item(5000), item(12), item(13))
	var pkts [8]transport.RxPacket
	for want := 10; want <= 13; {
		if err := b.Wait(time.Minute); err != nil {
			t.Fatal(err)
		}
		n, err := b.RxBurst(pkts[:])
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range pkts[:n] {
			if len(x.Data) == 5000 {
				continue // in a train it comes through
			}
			if len(x.Data) != want {
				t.Errorf("a packet of %d bytes, want %d", len(x.Data), want)
			}
			want++
		}
	}
}
