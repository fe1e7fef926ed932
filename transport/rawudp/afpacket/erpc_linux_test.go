package afpacket

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/rawudp"
	"github.com/userspace-rpc/erpc/transport/rawudp/rawtest"
	"github.com/userspace-rpc/erpc/transport/rawudp/vethtest"
)

// TestRPC makes calls of the library across the pair: raw to raw, with loss, and raw to and from
// kernel sockets, which speak the same on the wire.
func TestRPC(t *testing.T) {
	small, large := 20_000, 10
	if testing.Short() {
		small, large = 2000, 2
	}
	raw := func(tb testing.TB, s *vethtest.Side, ip netip.Addr) transport.Transport {
		return listenOn(tb, s, ip, Config{})
	}
	plain := func(tb testing.TB, s *vethtest.Side, ip netip.Addr) transport.Transport {
		return rawtest.UDPOn(tb, s, ip)
	}
	for _, v := range []struct {
		name           string
		v6, loss       bool
		client, server func(testing.TB, *vethtest.Side, netip.Addr) transport.Transport
	}{
		{"raw", false, false, raw, raw},
		{"raw6", true, false, raw, raw},
		{"lossy", false, true, raw, raw},
		{"to kernel", false, false, raw, plain},
		{"from kernel", false, false, plain, raw},
		{"to kernel6", true, false, raw, plain},
		{"from kernel6", true, false, plain, raw},
	} {
		t.Run(v.name, func(t *testing.T) {
			p := vethtest.New(t, 1500)
			from, to := p.A.IP4, p.B.IP4
			if v.v6 {
				from, to = p.A.IP6, p.B.IP6
			}
			server, client := v.server(t, p.B, to), v.client(t, p.A, from)
			if v.loss {
				client, server = rawtest.Lossy(t, client, 1), rawtest.Lossy(t, server, 2)
				small, large := small/10, large/2
				rawtest.ServeEcho(t, server)
				rawtest.Calls(t, client, server.LocalAddr().String(), small, large)
				return
			}
			rawtest.ServeEcho(t, server)
			rawtest.Calls(t, client, server.LocalAddr().String(), small, large)
		})
	}
}

// TestRPCWhileLinkIsDown: a call made while the link is down is answered when it is up again.
func TestRPCWhileLinkIsDown(t *testing.T) {
	p := vethtest.New(t, 1500)
	server := listenOn(t, p.B, p.B.IP4, Config{})
	rawtest.ServeEcho(t, server)
	ctx, cancel := context.WithTimeout(t.Context(), rawtest.Patience)
	defer cancel()
	client, err := erpc.Dial(ctx, listenOn(t, p.A, p.A.IP4, Config{}), server.LocalAddr().String(),
		erpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i := range 5 {
		p.A.Up(false)
		ended := make(chan error, 1)
		go func() {
			got, err := client.Call(ctx, 1, []byte{byte(i)})
			if err == nil && !bytes.Equal(got, []byte{byte(i)}) {
				err = errors.New("another answer")
			}
			ended <- err
		}()
		p.A.Up(true)
		if err := <-ended; err != nil {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

// TestRPCOverDeletedLink: when the link is deleted calls fail, and both loops end with errors that
// name their links.
func TestRPCOverDeletedLink(t *testing.T) {
	p := vethtest.New(t, 1500)
	server := listenOn(t, p.B, p.B.IP4, Config{})
	s, err := erpc.NewServer(erpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.HandleInline(1, func(r erpc.ReqHandle) { _ = r.RespondBytes(r.Data()) }); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(server) }()
	ctx, cancel := context.WithTimeout(t.Context(), rawtest.Patience)
	defer cancel()
	client, err := erpc.Dial(ctx, listenOn(t, p.A, p.A.IP4, Config{}), server.LocalAddr().String(),
		erpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Call(ctx, 1, []byte("x")); err != nil {
		t.Fatal(err)
	}
	p.A.Delete()
	if _, err = client.Call(ctx, 1, []byte("x")); !errors.Is(err, erpc.ErrClosed) {
		t.Errorf("the client's call ends with %v", err)
	}
	for side, err := range map[*vethtest.Side]error{p.A: client.Close(), p.B: <-ended} {
		if e, ok := errors.AsType[*rawudp.LinkError](err); !ok || e.Link != side.Name ||
			e.Err != rawudp.ErrLinkGone {
			t.Errorf("the loop on %s ends with %v", side.Name, err)
		}
	}
}
