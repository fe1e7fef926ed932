package session

import (
	"bytes"
	"testing"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/packet"
	"github.com/userspace-rpc/erpc/wire"
)

// TestCookies: a cookie is good for its address, for what an attempt to connect says twice, and for
// its time; one of several loops for its loop too.
func TestCookies(t *testing.T) {
	t.Run("one loop", func(t *testing.T) {
		testCookies(t, NewCookies, (*Cookies).Make)
	})
	t.Run("loops", func(t *testing.T) {
		testCookies(t, NewLoopCookies, func(
			k *Cookies, from *packet.Addr, body []byte, now monotime.Time,
		) [wire.CookieSize]byte {
			c := k.MakeFor(5, from, body, now)
			if c[wire.CookieLoopAt] != 5 {
				t.Errorf("the cookie is for loop %d", c[wire.CookieLoopAt])
			}
			return c
		})
	})
}

// TestSpread: all Connects of an attempt give the same number, others give others.
func TestSpread(t *testing.T) {
	other := clientHost
	other.Port++
	seen := map[uint64]bool{}
	for _, secret := range []byte{1, 2} {
		for _, from := range []packet.Addr{clientHost, other} {
			for nonce := range uint64(100) {
				a, b := NewLoopCookies([16]byte{secret}), NewLoopCookies([16]byte{secret})
				b.MakeFor(1, &from, make([]byte, wire.ConnectSize), 5)
				n := a.Spread(&from, nonce)
				if n != b.Spread(&from, nonce) || seen[n] {
					t.Fatalf("%v, nonce %d: %#x", from, nonce, n)
				}
				seen[n] = true
			}
		}
	}
}

func testCookies(
	t *testing.T, cookies func([16]byte) *Cookies,
	makeOne func(*Cookies, *packet.Addr, []byte, monotime.Time) [wire.CookieSize]byte,
) {
	k := cookies([16]byte{9})
	const now = monotime.Time(12_345_678_901)
	body := make([]byte, wire.ConnectSize, 100)
	base := wire.Connect{Nonce: 1, Epoch: 2, Session: 3, Token: 4, Offer: clientOffer}
	base.Put(body)
	body = wire.AppendExtension(body, wire.Extension{Type: 3, Value: []byte("abc")})
	base.Cookie = makeOne(k, &clientHost, body, now)
	base.Put(body)
	check := func(k *Cookies, from packet.Addr, body []byte, now monotime.Time) bool {
		var c wire.Connect
		c.Parse(body)
		return k.Check(&from, &c, body, now)
	}
	for name, at := range map[string]monotime.Time{
		"at once": now, "in the next window": now.Add(cookieWindow),
	} {
		if !check(k, clientHost, body, at) {
			t.Errorf("a good cookie is refused %s", name)
		}
	}
	for name, at := range map[string]monotime.Time{
		"expired": now.Add(2 * cookieWindow), "long expired": now.Add(3 * cookieWindow),
		"of the future": now.Add(-cookieWindow),
	} {
		if check(k, clientHost, body, at) {
			t.Errorf("a cookie %s is taken", name)
		}
	}
	if check(cookies([16]byte{8}), clientHost, body, now) {
		t.Error("a cookie of another secret is taken")
	}
	for name, change := range map[string]func(*packet.Addr){
		"IP": func(a *packet.Addr) { a.IP[3]++ }, "port": func(a *packet.Addr) { a.Port++ },
		"scope": func(a *packet.Addr) { a.Scope++ },
	} {
		from := clientHost
		if change(&from); check(k, from, body, now) {
			t.Errorf("a cookie for another %s is taken", name)
		}
	}
	for i := range body {
		bad := bytes.Clone(body)
		bad[i] ^= 2               // bit 0 of the cookie names the window
		free := i >= 40 && i < 48 // the MTU may fall between two Connects
		if check(k, clientHost, bad, now) != free {
			t.Errorf("byte %d differs: taken %v", i, !free)
		}
	}
	body[48] ^= 1
	if check(k, clientHost, body, now) {
		t.Error("a cookie of this window is taken for one of another")
	}
}

// TestCookiesAllocateNothing: Connects make no garbage here.
func TestCookiesAllocateNothing(t *testing.T) {
	k := NewCookies([16]byte{9})
	body := make([]byte, wire.ConnectSize)
	var c wire.Connect
	k.Make(&clientHost, body, 0)
	if n := testing.AllocsPerRun(100, func() {
		c.Cookie = k.Make(&clientHost, body, 0)
		if !k.Check(&clientHost, &c, body, 0) {
			t.Fatal("a good cookie is refused")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkCookies measures the cost of a Connect that brings no cookie, or a bad one.
func BenchmarkCookies(b *testing.B) {
	k := NewCookies([16]byte{9})
	body := make([]byte, wire.ConnectSize)
	var c wire.Connect
	b.Run("make", func(b *testing.B) {
		for b.Loop() {
			c.Cookie = k.Make(&clientHost, body, 0)
		}
	})
	b.Run("check", func(b *testing.B) {
		for b.Loop() {
			k.Check(&clientHost, &c, body, 0)
		}
	})
}
