package udp

import (
	"runtime"
	"testing"

	"github.com/userspace-rpc/erpc/transport"
)

// TestKind: sockets that differ in nothing but a port of the system's choice are of one kind, and
// no others are. A type that embeds one has none.
func TestKind(t *testing.T) {
	kindOf := func(c *Conn) any { return c.Kind(c) }
	a := kindOf(listen(t, "127.0.0.1:0", Config{}))
	if a == nil {
		lacks(t, "a kernel that tells networks apart")
	}
	if b := kindOf(listen(t, "127.0.0.1:0", Config{})); b != a {
		t.Errorf("%v and %v are of one kind", a, b)
	}
	closed := listen(t, "127.0.0.1:0", Config{})
	port := closed.LocalAddr().String()
	_ = closed.Close()
	for name, c := range map[string]*Conn{
		"closed": closed, "a port of one's own": listen(t, port, Config{}),
		"a shared port":          listen(t, "127.0.0.1:0", Config{ReusePort: true}),
		"portable, which cannot": listen(t, "127.0.0.1:0", Config{Portable: true}),
	} {
		if k := kindOf(c); k != nil {
			t.Errorf("%s: kind %v, want nil", name, k)
		}
	}
	embeds := struct{ *Conn }{listen(t, "127.0.0.1:0", Config{})}
	if k := transport.Transport(embeds).Kind(embeds); k != nil {
		t.Errorf("what embeds a Conn passes for one: %v", k)
	}
	for name, c := range map[string]*Conn{
		"another host": listen(t, "127.0.0.2:0", Config{}), "all": listen(t, ":0", Config{}),
		"all of IPv4": listen(t, "0.0.0.0:0", Config{}),
		"MTU":         listen(t, "127.0.0.1:0", Config{MTU: 999}),
		"buffer":      listen(t, "127.0.0.1:0", Config{RecvBuffer: 1 << 16}),
	} {
		if k := kindOf(c); k == nil || k == a {
			t.Errorf("%s: kind %v, want another than %v", name, k, a)
		}
	}
	inNamespace(t, 1500, func(t *testing.T) {
		if k := kindOf(listen(t, "127.0.0.1:0", Config{})); k == nil || k == a {
			t.Errorf("in another network: kind %v, want another than %v", k, a)
		}
	})
}

// TestListenTakesLittle: a socket that is closed at once took no memory for packets.
func TestListenTakesLittle(t *testing.T) {
	const rounds, most = 100, 64 << 10
	var before, after runtime.MemStats
	for _, addr := range []string{"127.0.0.1:0", ":0"} {
		runtime.ReadMemStats(&before)
		for range rounds {
			c, err := Listen(addr, Config{})
			if err != nil {
				t.Fatal(err)
			}
			_ = c.Close()
		}
		runtime.ReadMemStats(&after)
		if n := (after.TotalAlloc - before.TotalAlloc) / rounds; n > most {
			t.Errorf("%s: %d bytes each, want at most %d", addr, n, most)
		}
	}
}
