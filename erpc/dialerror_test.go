package erpc_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
)

// nobody is a transport at an address of its own choice, which nobody answers. The names that it
// knows are addresses.
type nobody struct {
	*memEnd
	local string
}

func addrOf(text string) (a transport.Addr) {
	to, err := net.ResolveUDPAddr("udp", text)
	if err != nil {
		return a
	}
	a = transport.AddrFrom(to.AddrPort(), 0)
	return a
}

func (n *nobody) LocalAddr() transport.Addr { return addrOf(n.local) }

func (n *nobody) Resolve(text string) (transport.Addr, error) {
	to := addrOf(strings.Replace(text, "server", "10.1.2.3", 1))
	if text == "gone:1" || to.AddrPort().Addr().Is4() != n.LocalAddr().AddrPort().Addr().Is4() {
		return transport.Addr{}, transport.ErrBadAddress
	}
	return to, nil
}

// TestDialError: an error of Dial names both addresses and the likely cause, and matches what it
// did before.
func TestDialError(t *testing.T) {
	all := `or on all (":0")`
	for _, c := range []struct {
		local, server string
		text, hint    string
		want          error
	}{
		{"10.9.9.9:50", "server:1", "dial server:1 (10.1.2.3:1) from 10.9.9.9:50: connect timeout; ",
			"no server listens there, or a firewall drops UDP on the way", erpc.ErrConnect},
		{"127.0.0.1:50", "10.1.2.3:1", "dial 10.1.2.3:1 from 127.0.0.1:50: connect timeout; ",
			"the local address is a loopback one, which other machines cannot answer: listen on an " +
				"address of the network, " + all, erpc.ErrConnect},
		{"127.0.0.1:50", "127.0.0.1:1", "from 127.0.0.1:50", "no server listens there", erpc.ErrConnect},
		{"127.0.0.1:50", "0.0.0.0:1", "from 127.0.0.1:50",
			"that address stands for all of a host's own: name one of them", erpc.ErrConnect},
		{"127.0.0.1:50", "127.0.0.1:0", "from 127.0.0.1:50",
			"port 0 is nobody's: name the server's port", erpc.ErrConnect},
		{"[::1]:50", "[fe80::1]:1", "from [::1]:50",
			"a link-local address needs its interface, as in [fe80::1%eth0]:31850", erpc.ErrConnect},
		{"10.9.9.9:50", "[2001:db8::1]:1", "dial [2001:db8::1]:1 from 10.9.9.9:50: address not resolved",
			"the local address is IPv4 and the server's IPv6: listen on an address of the same kind, " +
				all, erpc.ErrResolve},
		{"[::1]:50", "10.1.2.3:1", "from [::1]:50: address not resolved",
			"the local address is IPv6 and the server's IPv4: listen on an address of the same kind, " +
				all, transport.ErrBadAddress},
		{"10.9.9.9:50", "gone:1", "dial gone:1 from 10.9.9.9:50: address not resolved", "",
			erpc.ErrResolve},
		{"10.9.9.9:50", "shm:1", "dial shm:1: ", "", erpc.ErrResolve},
	} {
		tr := &nobody{newMemNet().end(true), c.local}
		cfg := erpc.Config{Timing: erpc.Timing{ConnectTimeout: time.Millisecond, ConnectRetry: 500_000}}
		_, err := erpc.Dial(context.Background(), tr, c.server, cfg)
		is(t, c.server, err, c.want)
		var de *erpc.DialError
		if !errors.As(err, &de) {
			t.Errorf("%s from %s: %v is no DialError", c.server, c.local, err)
			continue
		}
		if de.Server != c.server || de.Local != addrOf(c.local) || de.Hint != c.hint ||
			!strings.Contains(err.Error(), c.text) || !strings.HasSuffix(err.Error(), c.hint) {
			t.Errorf("%s from %s:\n%v\nhint %q", c.server, c.local, err, de.Hint)
		}
	}
}

// timeUp is a context whose deadline passes when the test says so.
type timeUp struct {
	context.Context
	done chan struct{}
}

func (c timeUp) Done() <-chan struct{} { return c.done }

func (c timeUp) Err() error {
	select {
	case <-c.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// TestDialErrorDeadline: the same when the context ends before the handshake gives up. A
// refusal by the server has no hint.
func TestDialErrorDeadline(t *testing.T) {
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	is(t, "listen", err, nil)
	ctx := timeUp{bg, make(chan struct{})}
	go func() {
		_, _, _ = silent.ReadFrom(make([]byte, 1<<16)) // a Connect has come
		close(ctx.done)
	}()
	g := newRig(t, erpc.Config{MaxSessions: 1})
	full := g.serve(t, "127.0.0.1:0")
	dial(t, full, erpc.Config{})
	for _, c := range []struct {
		ctx    context.Context
		server string
		want   error
		hint   bool
	}{
		{ctx, silent.LocalAddr().String(), erpc.ErrDeadline, true},
		{bg, full, erpc.ErrRefused, false},
	} {
		tr := listen(t, "127.0.0.1:0")
		local := tr.LocalAddr()
		_, err = erpc.Dial(c.ctx, tr, c.server, ofItsOwn)
		is(t, c.server, err, c.want)
		var de *erpc.DialError
		if !errors.As(err, &de) || de.Local != local || de.Remote.String() != c.server ||
			(de.Hint != "") != c.hint {
			t.Errorf("%v", err)
		}
	}
	is(t, "close", silent.Close(), nil)
}
