package auto

import (
	"path/filepath"
	"runtime"
	"testing"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/conformance"
	"github.com/userspace-rpc/erpc/transport/conformance/decorated"
	"github.com/userspace-rpc/erpc/transport/shm"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// meeting returns a Config whose endpoints meet in a directory of their own.
func meeting(tb testing.TB) Config {
	return Config{SHM: shm.Config{Dir: filepath.Join(tb.TempDir(), "erpc")}}
}

// listen opens an endpoint that is closed with the test.
func listen(tb testing.TB, addr string, cfg Config) *Conn {
	tb.Helper()
	c, err := Listen(addr, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	return c
}

func listenUDP(tb testing.TB, addr string) *udp.Conn {
	tb.Helper()
	c, err := udp.Listen(addr, udp.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	return c
}

// needShared skips a test where there is no shared memory.
func needShared(tb testing.TB) {
	tb.Helper()
	if runtime.GOOS != "linux" {
		tb.Skip("shared memory is for Linux")
	}
	if on, why := listen(tb, "127.0.0.1:0", meeting(tb)).SharedMemory(); !on {
		tb.Fatalf("no shared memory: %v", why)
	}
}

// shared is an endpoint under its address in shared memory: the suite sends to LocalAddr.
type shared struct{ *Conn }

func (s shared) LocalAddr() transport.Addr { return s.shm.LocalAddr() }

// unshared is an endpoint that sends to itself over UDP, as the suite wants it of a UDP
// address. To others it resolves as ever.
type unshared struct{ *Conn }

func (u unshared) Resolve(text string) (transport.Addr, error) {
	if text == u.LocalAddr().String() {
		return u.udp.Resolve(text)
	}
	return u.Conn.Resolve(text)
}

func TestConformance(t *testing.T) {
	const any = "127.0.0.1:0"
	var cfg Config
	t.Run("udp only", func(t *testing.T) {
		conformance.Run(t, func(tb testing.TB) (a, b transport.Transport) {
			c := Config{NoSharedMemory: true}
			return listen(tb, any, c), listen(tb, any, c)
		})
	})
	t.Run("from plain udp", func(t *testing.T) {
		conformance.Run(t, func(tb testing.TB) (a, b transport.Transport) {
			return listenUDP(tb, any), unshared{listen(tb, any, meeting(tb))}
		})
	})
	t.Run("to plain udp", func(t *testing.T) {
		conformance.Run(t, func(tb testing.TB) (a, b transport.Transport) {
			return unshared{listen(tb, any, meeting(tb))}, listenUDP(tb, any)
		}, conformance.WithThird(func(tb testing.TB) transport.Transport {
			return listenUDP(tb, any)
		}))
	})
	t.Run("shared memory", func(t *testing.T) {
		needShared(t)
		conformance.Run(t, func(tb testing.TB) (a, b transport.Transport) {
			cfg = meeting(tb)
			return shared{listen(tb, any, cfg)}, shared{listen(tb, any, cfg)}
		}, conformance.WithThird(func(tb testing.TB) transport.Transport {
			return shared{listen(tb, any, cfg)}
		}), conformance.WithHint(transport.HintGone))
	})
	t.Run("shared memory", func(t *testing.T) {
		needShared(t)
		decorated.Run(t, func(tb testing.TB) (a, b transport.Transport) {
			cfg := meeting(tb)
			x, y := listen(tb, any, cfg), listen(tb, any, cfg)
			if _, err := x.Resolve(y.LocalAddr().String()); err != nil { // see package shm's test
				tb.Fatal(err)
			}
			for _, c := range []*Conn{x, y} {
				if _, err := c.RxBurst(nil); err != nil {
					tb.Fatal(err)
				}
			}
			return shared{x}, shared{y}
		}, conformance.WithoutSelf(), conformance.WithHint(transport.HintGone))
	})
}
