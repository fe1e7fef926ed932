package main

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/rawudp/afpacket"
	"github.com/userspace-rpc/erpc/transport/rawudp/afxdp"
	"github.com/userspace-rpc/erpc/transport/rawudp/vethtest"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// TestServerGoneAcrossLink: the socket of a server across a link closes without a word, as when its
// process is killed, with calls under way. Its client would wait for an hour, but the network says
// that nobody listens. Linux says so six times and then once a second. Packets of the calls use
// that up, so they must count for the client.
// Transports over raw frames hear it by the kernel's socket of their port.
func TestServerGoneAcrossLink(t *testing.T) {
	overUDP := func(a string) (transport.Transport, error) { return udp.Listen(a, udp.Config{}) }
	overPackets := func(a string) (transport.Transport, error) {
		return afpacket.Listen(a, afpacket.Config{})
	}
	overXDP := func(a string) (transport.Transport, error) { return afxdp.Listen(a, afxdp.Config{}) }
	for _, c := range []struct {
		listen      func(string) (transport.Transport, error) // the client's
		calls, size int
	}{
		{overUDP, 1, 32}, {overUDP, 8, 32}, {overUDP, 16, 32}, {overUDP, 2, 100_000},
		{overUDP, 16, 100_000},
		{overPackets, 1, 32}, {overPackets, 16, 32}, {overPackets, 2, 100_000},
		{overXDP, 1, 32}, {overXDP, 16, 32}, {overXDP, 2, 100_000},
	} {
		p := vethtest.New(t, 1500)
		srv, err := erpc.NewServer(erpc.Config{})
		if err != nil {
			t.Fatal(err)
		}
		err = srv.HandleInline(1, func(h erpc.ReqHandle) { _ = h.RespondBytes(h.Data()) })
		if err != nil {
			t.Fatal(err)
		}
		var there transport.Transport
		addr := netip.AddrPortFrom(p.B.IP4, 31999).String()
		p.B.Do(func() { there, err = udp.Listen(addr, udp.Config{}) })
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- srv.Serve(there) }()
		p.A.Do(func() { outlive(t, p, addr, c.calls, c.size, c.listen, there.Close) })
		if err = <-ended; err == nil {
			t.Error("the server ended without an error")
		}
		_ = srv.Close()
	}
}

// outlive keeps calls under way until the server is killed and they have all failed.
func outlive(t *testing.T, p *vethtest.Pair, addr string, calls, size int,
	listen func(string) (transport.Transport, error), kill func() error) {
	n, err := erpc.NewNexus(erpc.Config{Timing: erpc.Timing{FailureTimeout: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	tr, err := listen(netip.AddrPortFrom(p.A.IP4, 0).String())
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
	done, failed := 0, 0
	var again func(req *erpc.MsgBuffer)
	again = func(req *erpc.MsgBuffer) {
		_, err := r.EnqueueRequest(s, erpc.Request{Type: 1, Req: req, Done: func(c erpc.Completion) {
			if c.Resp != nil {
				c.Resp.Free()
			}
			if c.Err == nil {
				done++
				again(c.Req)
				return
			}
			if failed++; !errors.Is(c.Err, erpc.ErrPeerLost) {
				t.Errorf("a call ended with %v", c.Err)
			}
			c.Req.Free()
		}})
		if err != nil {
			t.Error(err)
		}
	}
	for range calls {
		req, err := r.Alloc(size)
		if err != nil {
			t.Fatal(err)
		}
		again(req)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	defer context.AfterFunc(ctx, r.Wake)()
	run := func(stop func() bool) {
		if err := r.Run(func() bool { return stop() || ctx.Err() != nil }); err != nil {
			t.Error(err)
		}
	}
	run(func() bool { return done >= 100 })
	if err = kill(); err != nil {
		t.Error(err)
	}
	start := time.Now()
	run(func() bool { return failed == calls })
	if failed != calls {
		t.Errorf("%d of %d calls failed", failed, calls)
	}
	t.Logf("%d calls of %d bytes: gone after %v", calls, size, time.Since(start))
}
