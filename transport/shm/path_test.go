//go:build linux

package shm

import (
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// TestPathMTU: a connection has the smaller MTU of both ends.
func TestPathMTU(t *testing.T) {
	cfg := meeting(t, Config{MTU: 4000})
	a := listen(t, "a", cfg)
	cfg.MTU = 1000
	b := listen(t, "b", cfg)
	if n := a.Path(b.LocalAddr()).MTU; n != 4000 {
		t.Errorf("Path.MTU = %d without a connection, want 4000", n)
	}
	for _, order := range [][2]*Conn{{a, b}, {b, a}} {
		if _, err := order[0].Resolve(order[1].LocalAddr().String()); err != nil {
			t.Fatal(err)
		}
		// A session is opened right after Resolve, before the next RxBurst.
		if n := order[0].Path(order[1].LocalAddr()).MTU; n != 1000 {
			t.Errorf("Path.MTU = %d, want 1000", n)
		}
		exchange(t, order[0], order[1])
	}
	if n := a.Path(a.LocalAddr()).MTU; n != 4000 {
		t.Errorf("Path.MTU = %d to itself, want 4000", n)
	}
	before := a.Stats().TxDropped
	send(t, a, b.LocalAddr(), strings.Repeat("x", 1001))
	if n := a.Stats().TxDropped - before; n != 1 {
		t.Errorf("a packet larger than the peer's MTU: %d dropped, want 1", n)
	}
}

// TestPath: what is known of a destination besides the MTU, with a connection, without one, and
// after Close. With users who may be others nobody is known for sure.
func TestPath(t *testing.T) {
	for _, others := range []bool{false, true} {
		cfg := meeting(t, Config{AllowOtherUsers: others})
		a, b := listen(t, "a", cfg), listen(t, "b", cfg)
		if _, err := a.Resolve("b"); err != nil {
			t.Fatal(err)
		}
		want := transport.Path{
			MTU: DefaultMTU, HostDelay: time.Millisecond,
			Shared: true, Alone: true, Checksummed: true, Private: !others, Local: true,
		}
		for range 2 {
			for _, dst := range []transport.Addr{b.LocalAddr(), a.LocalAddr(), newAddr(), {}} {
				if got := a.Path(dst); got != want {
					t.Errorf("AllowOtherUsers %v: Path(%v) = %+v, want %+v", others, dst, got, want)
				}
			}
			a.Close()
		}
	}
}
