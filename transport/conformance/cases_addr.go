package conformance

import (
	"errors"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/userspace-rpc/erpc/transport"
)

// badHostPorts are no addresses of any transport that has "host:port". None of
// them makes a resolver ask the network.
var badHostPorts = []string{
	"", ":", "x", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:-1", "127.0.0.1:1x",
	"[::1:5", "::1]:5", "1.2.3.4:5:6", "\x00:1", "[]:", "[:]:1", "127.0.0.1:99999999999999999999",
	strings.Repeat("a", 10000) + ":1", strings.Repeat(":", 10000),
}

func testCaps(r *rig) {
	for _, t := range []transport.Transport{r.a, r.b} {
		c := t.Caps()
		if c.Name == "" || strings.ContainsAny(c.Name, " \t\n/") {
			r.Errorf("Name %q is not a short name", c.Name)
		}
		if c.MTU < 64 || c.MTU > 1<<20 {
			r.Errorf("MTU %d is out of all reason", c.MTU)
		}
		if c.RxRing < 1 {
			r.Errorf("RxRing %d: no packet can wait", c.RxRing)
		}
		if again := t.Caps(); again != c {
			r.Errorf("Caps changed from %+v to %+v", c, again)
		}
	}
}

func testLocalAddr(r *rig) {
	for _, t := range []transport.Transport{r.a, r.b} {
		local := t.LocalAddr()
		if !local.IsValid() {
			r.Fatalf("LocalAddr is no address")
		}
		if again := t.LocalAddr(); again != local {
			r.Errorf("LocalAddr changed from %v to %v", local, again)
		}
		for _, by := range []transport.Transport{r.a, r.b} {
			got, err := by.Resolve(local.String())
			if err != nil || got != local {
				r.Errorf("Resolve(%q) = %v, %v, want %v", local, got, err, local)
			}
			all := by.Addrs(local.String())
			if len(all) > 0 && !slices.Equal(all, []transport.Addr{local}) {
				r.Errorf("Addrs(%q) = %v", local, all)
			}
		}
	}
	if r.a.LocalAddr() == r.b.LocalAddr() {
		r.Errorf("both endpoints have address %v", r.a.LocalAddr())
	}
}

func testKind(r *rig) {
	kind := r.a.Kind(r.a)
	if kind != nil && !reflect.ValueOf(kind).Comparable() {
		r.Fatalf("Kind %v of type %T cannot be compared", kind, kind)
	}
	if again := r.a.Kind(r.a); again != kind {
		r.Errorf("Kind changed from %v to %v", kind, again)
	}
	for _, other := range []transport.Transport{nil, r.b} {
		if got := r.a.Kind(other); got != nil {
			r.Errorf("Kind is %v for another transport's self, want nil", got)
		}
	}
	_ = r.a.Close()
	if got := r.a.Kind(r.a); got != nil {
		r.Errorf("Kind is %v after Close, want nil", got)
	}
}

func testBadAddresses(r *rig) {
	for _, text := range r.o.badAddrs {
		addr, err := resolve(r, text)
		if all := r.a.Addrs(text); len(all) > 0 {
			r.Errorf("Addrs(%.40q) = %v", text, all)
		}
		if err == nil {
			r.Errorf("Resolve(%.40q) = %v, want an error", text, addr)
		} else if !isAddressError(err) {
			r.Errorf("Resolve(%.40q): error %v (%T) is neither ErrBadAddress nor a resolver's",
				text, err, err)
		}
	}
	r.sendTo(spec{head: 24}) // no harm done
}

// resolve turns a panic into a failure, so that all texts are tried.
func resolve(r *rig, text string) (addr transport.Addr, err error) {
	defer func() {
		if p := recover(); p != nil {
			r.Errorf("Resolve(%.40q) panicked: %v", text, p)
			err = transport.ErrBadAddress
		}
	}()
	return r.a.Resolve(text)
}

// testResolveElsewhere: Resolve runs in other goroutines while packets move, and until Close.
func testResolveElsewhere(r *rig) {
	const resolvers = 2
	peer := r.b.LocalAddr()
	var stop atomic.Bool
	r.Cleanup(func() { stop.Store(true) })
	begun, ended := make(chan struct{}, resolvers), make(chan error, resolvers)
	for range resolvers {
		go func() {
			for n := 0; !stop.Load(); n++ {
				if got, err := r.a.Resolve(peer.String()); err != nil || got != peer {
					ended <- err
					return
				}
				r.a.Addrs(peer.String())
				if n == 0 {
					begun <- struct{}{}
				}
			}
		}()
	}
	for range resolvers {
		until(r, begun, "Resolve elsewhere")
	}
	for range 20 {
		r.sendTo(spec{head: 24})
	}
	if err := r.a.Close(); err != nil {
		r.Fatalf("Close: %v", err)
	}
	for range resolvers {
		err := until(r, ended, "Resolve elsewhere, then Close")
		if !errors.Is(err, transport.ErrClosed) {
			r.Errorf("Resolve elsewhere ended with %v, want ErrClosed", err)
		}
	}
}

func isAddressError(err error) bool {
	var (
		dns   *net.DNSError
		addr  *net.AddrError
		parse *net.ParseError
		op    *net.OpError
	)
	return errors.Is(err, transport.ErrBadAddress) || errors.As(err, &dns) || errors.As(err, &addr) ||
		errors.As(err, &parse) || errors.As(err, &op)
}
