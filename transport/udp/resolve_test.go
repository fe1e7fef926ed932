package udp

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/userspace-rpc/erpc/transport"
)

// knows has the resolver know one name, "name".
func knows(t *testing.T, ips ...string) {
	before := lookupIP
	t.Cleanup(func() { lookupIP = before })
	lookupIP = func(_ context.Context, network, host string) (all []netip.Addr, err error) {
		for _, text := range ips {
			if ip := netip.MustParseAddr(text); network == "ip" || isIPv4(ip) == (network == "ip4") {
				all = append(all, ip)
			}
		}
		if host != "name" || len(all) == 0 {
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		}
		return all, nil
	}
}

// TestAddrs: all addresses of a name that the socket can reach are given, in the resolver's order,
// with the families in turns. Resolve goes on to give one of IPv4.
func TestAddrs(t *testing.T) {
	for _, c := range []struct {
		local string
		ips   []string
		first string
		all   []string // nil: Resolve's alone
	}{
		{"[::]:0", []string{"::1", "127.0.0.1"}, "127.0.0.1", []string{"::1", "127.0.0.1"}},
		{"[::]:0", []string{"127.0.0.1", "::1"}, "127.0.0.1", []string{"127.0.0.1", "::1"}},
		{"[::]:0", []string{"127.0.0.1", "127.0.0.2", "127.0.0.3", "::1"}, "127.0.0.1",
			[]string{"127.0.0.1", "::1", "127.0.0.2", "127.0.0.3"}},
		{"[::]:0", []string{"127.0.0.1", "::ffff:127.0.0.1"}, "127.0.0.1", nil},
		{"127.0.0.1:0", []string{"::1", "127.0.0.2", "127.0.0.3"}, "127.0.0.2",
			[]string{"127.0.0.2", "127.0.0.3"}},
		{"[::1]:0", []string{"127.0.0.1", "::1"}, "::1", nil},
		// A socket of the loopback interface has no way out.
		{"127.0.0.1:0", []string{"203.0.113.1", "127.0.0.2", "127.0.0.3"}, "127.0.0.2",
			[]string{"127.0.0.2", "127.0.0.3"}},
		{"0.0.0.0:0", []string{"127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5",
			"127.0.0.6", "127.0.0.7", "127.0.0.8", "127.0.0.9"}, "127.0.0.1",
			[]string{"127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6",
				"127.0.0.7", "127.0.0.8"}},
	} {
		for _, portable := range []bool{false, true} {
			t.Run(fmt.Sprint(c.local, c.ips, portable), func(t *testing.T) {
				needIPv6(t, append(c.ips, c.local)...)
				s := listen(t, c.local, Config{Portable: portable})
				knows(t, c.ips...)
				got, err := s.Resolve("name:5")
				if want := port5(c.first); err != nil || got != want {
					t.Errorf("Resolve = %v, %v, want %v", got, err, want)
				}
				var want []transport.Addr
				for _, ip := range c.all {
					want = append(want, port5(ip))
				}
				if all := s.Addrs("name:5"); !slices.Equal(all, want) {
					t.Errorf("Addrs = %v, want %v", all, want)
				}
				if all := s.Addrs("other:5"); all != nil {
					t.Errorf("Addrs of another name = %v", all)
				}
			})
		}
	}
}

func port5(ip string) transport.Addr {
	return transport.AddrFrom(netip.AddrPortFrom(netip.MustParseAddr(ip), 5), 0)
}

func needIPv6(t *testing.T, texts ...string) {
	c, err := net.ListenPacket("udp6", "[::1]:0")
	if err == nil {
		c.Close()
		return
	}
	for _, text := range texts {
		if !slices.Contains([]byte(text), '[') && !netip.MustParseAddr(text).Is6() {
			continue
		}
		if _, has := os.Stat("/proc/net/if_inet6"); has == nil {
			t.Fatalf("the kernel has IPv6, and yet: %v", err)
		}
		t.Skipf("no IPv6: %v", err)
	}
}

// TestManyNames: a socket keeps the addresses of some names, however many are asked for, and those
// of the last one.
func TestManyNames(t *testing.T) {
	s := listen(t, "0.0.0.0:0", Config{})
	before := lookupIP
	t.Cleanup(func() { lookupIP = before })
	two := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")}
	lookupIP = func(context.Context, string, string) ([]netip.Addr, error) { return two, nil }
	for i := range 4 * maxNames {
		name := fmt.Sprintf("name%d:5", i)
		if _, err := s.Resolve(name); err != nil {
			t.Fatal(err)
		}
		if len(s.Addrs(name)) != 2 || len(s.names.addrs) > maxNames {
			t.Fatalf("%v of %d names", s.Addrs(name), len(s.names.addrs))
		}
	}
	two = two[:1] // it has one now
	if _, err := s.Resolve("name1:5"); err != nil || s.Addrs("name1:5") != nil {
		t.Errorf("%v, %v", s.Addrs("name1:5"), err)
	}
}
