package erpc_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// owners are the ways to give transports to an endpoint.
func owners(t *testing.T) map[string]func(trs ...transport.Transport) error {
	nexus := func() *erpc.Nexus {
		n, err := erpc.NewNexus(erpc.Config{})
		is(t, "nexus", err, nil)
		t.Cleanup(func() { is(t, "close the nexus", n.Close(), nil) })
		return n
	}
	server := func() *rig { return newRig(t, erpc.Config{}) }
	return map[string]func(trs ...transport.Transport) error{
		"Serve":      func(trs ...transport.Transport) error { return server().Serve(trs[0]) },
		"ServeGroup": func(trs ...transport.Transport) error { return server().ServeGroup(trs) },
		"NewRpc": func(trs ...transport.Transport) error {
			return second(nexus().NewRpc(trs[0]))
		},
		"NewRpcs": func(trs ...transport.Transport) error { return second(nexus().NewRpcs(trs)) },
		"Dial": func(trs ...transport.Transport) error {
			return second(erpc.Dial(bg, trs[0], "127.0.0.1:1", erpc.Config{}))
		},
		"Dial a bad address": func(trs ...transport.Transport) error {
			return second(erpc.Dial(bg, trs[0], "no address", erpc.Config{}))
		},
		"NewLoop": func(trs ...transport.Transport) error {
			return second(erpc.NewLoop(trs[0], erpc.Config{}))
		},
		"NewLoop with a bad config": func(trs ...transport.Transport) error {
			return second(erpc.NewLoop(trs[0], erpc.Config{Slots: -1}))
		},
	}
}

// TestTransportTwice: a transport that an endpoint owns is refused with a name, by each way and
// from another Nexus, and the endpoint goes on. The others of a list are closed.
func TestTransportTwice(t *testing.T) {
	checkLeaks(t)
	g := newRig(t, erpc.Config{})
	served, dialed := listen(t, "127.0.0.1:0"), listen(t, "127.0.0.1:0")
	g.served.Go(func() { is(t, "Serve", g.Serve(served), erpc.ErrClosed) })
	c, err := erpc.Dial(bg, dialed, served.LocalAddr().String(), erpc.Config{})
	is(t, "dial", err, nil)
	t.Cleanup(func() { is(t, "close the client", c.Close(), nil) })
	is(t, "the same server", g.Serve(served), erpc.ErrTransportInUse)
	for name, own := range owners(t) {
		for _, tr := range []transport.Transport{served, dialed} {
			free := listen(t, "127.0.0.1:0")
			is(t, name, own(tr, free), erpc.ErrTransportInUse)
			if name == "NewRpcs" || name == "ServeGroup" {
				is(t, name+": the free one", free.Wait(0), transport.ErrClosed)
			}
			_ = free.Close()
			is(t, name+": a call after it", echo(c, typeEcho, 1, 3000), nil)
		}
	}
	is(t, "close", errors.Join(c.Close(), g.Close()), nil)
	is(t, "the served one, when its server has ended", served.Wait(0), transport.ErrClosed)
	is(t, "again then", second(erpc.NewLoop(served, erpc.Config{Slots: -1})), erpc.ErrConfig)
}

// TestTransportTwiceInList: it is closed once, as one that came to nothing.
func TestTransportTwiceInList(t *testing.T) {
	checkLeaks(t)
	for _, name := range []string{"NewRpcs", "ServeGroup"} {
		tr := listen(t, "127.0.0.1:0")
		is(t, name, owners(t)[name](tr, tr), erpc.ErrTransportInUse)
		is(t, name+": the transport", tr.Wait(0), transport.ErrClosed)
	}
}

// valueEnd is a transport whose type cannot be compared.
type valueEnd struct {
	transport.Transport
	_ []int
}

// TestUncomparableTransport: nobody can tell that there are two of it, and nothing panics.
func TestUncomparableTransport(t *testing.T) {
	checkLeaks(t)
	n, err := erpc.NewNexus(erpc.Config{})
	is(t, "nexus", err, nil)
	a, err := n.NewRpc(valueEnd{Transport: listen(t, "127.0.0.1:0")})
	is(t, "one", err, nil)
	b, err := n.NewRpc(valueEnd{Transport: listen(t, "127.0.0.1:0")})
	is(t, "another", err, nil)
	is(t, "close", errors.Join(a.Close(), b.Close(), n.Close()), nil)
}

// TestNilTransport: none is a mistake with a name, also what udp.Listen returns with an error.
func TestNilTransport(t *testing.T) {
	checkLeaks(t)
	for name, own := range owners(t) {
		is(t, name, own(nil), erpc.ErrConfig)
		is(t, name+", a nil pointer", own((*udp.Conn)(nil)), erpc.ErrConfig)
	}
	free := listen(t, "127.0.0.1:0")
	is(t, "in a list", owners(t)["NewRpcs"](free, nil), erpc.ErrConfig)
	is(t, "the other one", free.Wait(0), transport.ErrClosed)
}

// TestDroppedEndpoint: an endpoint that the program drops without Close takes no memory, nor does
// its transport.
func TestDroppedEndpoint(t *testing.T) {
	n, err := erpc.NewNexus(erpc.Config{})
	is(t, "nexus", err, nil)
	under := listen(t, "127.0.0.1:0")
	defer under.Close()
	gone := make(chan struct{})
	func() {
		tr := &struct{ transport.Transport }{under}
		runtime.AddCleanup(tr, func(gone chan struct{}) { close(gone) }, gone)
		is(t, "endpoint", second(n.NewRpc(tr)), nil)
	}()
	for range 1000 {
		runtime.GC()
		select {
		case <-gone:
			return
		default:
			runtime.Gosched()
		}
	}
	t.Error("the transport is still reachable")
}
