//go:build linux

package shm

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/conformance"
	"github.com/userspace-rpc/erpc/transport/conformance/decorated"
)

// meeting returns a Config whose endpoints meet in a directory of their own.
func meeting(tb testing.TB, cfg Config) Config {
	cfg.Dir = filepath.Join(tb.TempDir(), "erpc")
	return cfg
}

// listen opens an endpoint that is closed with the test.
func listen(tb testing.TB, name string, cfg Config) *Conn {
	tb.Helper()
	c, err := Listen(name, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	return c
}

var badTexts = []string{
	"shm:", "shm:a/b", "a b", "..//x", "\x00", "shm:shm:x", ":", "127.0.0.1:80", "[::1]:5",
	"[100::1]:5", "[100::1%0]:5",
	"[100::1%1]:0", "[100::1%eth0]:5", "[100::1%01]:5", "[100::1%99999999999]:5", "[100::]:1",
	strings.Repeat("a", 65), strings.Repeat(":", 10000), "shm:" + strings.Repeat("a", 10000),
}

func TestConformance(t *testing.T) {
	for _, v := range []struct {
		name string
		cfg  Config
	}{
		{"default", Config{}},
		{"small ring", Config{MTU: 1000, Ring: 16 << 10}},
		{"odd MTU", Config{MTU: 8999, Ring: 64 << 10}},
	} {
		t.Run(v.name, func(t *testing.T) {
			var cfg Config
			conformance.Run(t, func(tb testing.TB) (a, b transport.Transport) {
				cfg = meeting(tb, v.cfg)
				return listen(tb, "a", cfg), listen(tb, "", cfg)
			}, conformance.WithBadAddresses(badTexts...), conformance.WithHint(transport.HintGone),
				conformance.WithThird(func(tb testing.TB) transport.Transport {
					return listen(tb, "third", cfg)
				}))
		})
		t.Run(v.name+" to itself", func(t *testing.T) {
			conformance.Run(t, func(tb testing.TB) (a, b transport.Transport) {
				cfg := meeting(tb, v.cfg)
				return listen(tb, "a", cfg), listen(tb, "b", cfg)
			}, conformance.WithBadAddresses(badTexts...))
		})
	}
	decorated.Run(t, func(tb testing.TB) (a, b transport.Transport) {
		cfg := meeting(tb, Config{})
		x, y := listen(tb, "a", cfg), listen(tb, "", cfg)
		if _, err := y.Resolve("a"); err != nil {
			tb.Fatal(err)
		}
		for _, c := range []*Conn{x, y} {
			if _, err := c.RxBurst(nil); err != nil { // it takes note of the connection
				tb.Fatal(err)
			}
		}
		return x, y
		// A lender that flushes does not wait for connections, or for room to itself.
	}, conformance.WithoutSelf(), conformance.WithBadAddresses(badTexts...),
		conformance.WithHint(transport.HintGone))
}
