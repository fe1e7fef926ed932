package packet

import (
	"bytes"
	"net/netip"
	"testing"
	"unsafe"
)

func TestAddrRoundTrip(t *testing.T) {
	for _, x := range []struct {
		in    string
		scope uint32
		out   string // "" means the same as in
	}{
		{"10.0.0.1:31850", 0, ""},
		{"0.0.0.0:0", 0, ""},
		{"255.255.255.255:65535", 0, ""},
		{"[::1]:31850", 0, ""},
		{"[2001:db8::5]:1", 0, ""},
		{"[::ffff:10.0.0.1]:7", 0, "10.0.0.1:7"}, // mapped: the same address
		{"[fe80::1]:9", 3, "[fe80::1%3]:9"},
		{"[fe80::1]:9", 4294967295, "[fe80::1%4294967295]:9"},
		{"[fe80::1%eth0]:9", 2, "[fe80::1%2]:9"}, // the name is dropped for the number
	} {
		want := x.out
		if want == "" {
			want = x.in
		}
		a := AddrFrom(netip.MustParseAddrPort(x.in), x.scope)
		if got := a.String(); got != want {
			t.Errorf("String of %s scope %d = %s, want %s", x.in, x.scope, got, want)
		}
		if got := a.AddrPort(); got != netip.MustParseAddrPort(want) {
			t.Errorf("AddrPort of %s scope %d = %v, want %v", x.in, x.scope, got, want)
		}
		if again := AddrFrom(a.AddrPort(), x.scope); again != a {
			t.Errorf("%s scope %d comes back as %+v, was %+v", x.in, x.scope, again, a)
		}
		if !a.IsValid() {
			t.Errorf("%s is not valid", x.in)
		}
	}
}

func TestAddrZero(t *testing.T) {
	var a Addr
	if a.IsValid() {
		t.Error("the zero Addr is valid")
	}
	for _, b := range []Addr{{Port: 1}, {Scope: 1}, {IP: [16]byte{15: 1}}} {
		if !b.IsValid() || b == a {
			t.Errorf("%+v is not valid", b)
		}
	}
	_ = a.String() // must not panic
}

func TestAddrMapKey(t *testing.T) {
	base := AddrFrom(netip.MustParseAddrPort("[fe80::1]:9"), 3)
	keys := map[Addr]int{}
	for i, a := range []Addr{
		base,
		AddrFrom(netip.MustParseAddrPort("[fe80::1]:10"), 3),
		AddrFrom(netip.MustParseAddrPort("[fe80::1]:9"), 4),
		AddrFrom(netip.MustParseAddrPort("[fe80::2]:9"), 3),
		AddrFrom(netip.MustParseAddrPort("10.0.0.1:9"), 3),
	} {
		keys[a] = i
	}
	if len(keys) != 5 {
		t.Errorf("%d keys, want 5", len(keys))
	}
	if i, ok := keys[AddrFrom(base.AddrPort(), 3)]; i != 0 || !ok {
		t.Error("an equal address is another key")
	}
	mapped := AddrFrom(netip.MustParseAddrPort("[::ffff:10.0.0.1]:9"), 3)
	if _, ok := keys[mapped]; !ok {
		t.Error("IPv4 and its mapped form are different keys")
	}
}

func TestAddrAppend(t *testing.T) {
	a := AddrFrom(netip.MustParseAddrPort("[2001:db8::5]:31850"), 0x01020304)
	want := []byte{
		0xAA,
		0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5,
		0x6A, 0x7C, 0, 0,
		4, 3, 2, 1,
	}
	if got := a.Append([]byte{0xAA}); !bytes.Equal(got, want) {
		t.Errorf("Append = %x, want %x", got, want)
	}
	if size := unsafe.Sizeof(a); size != 24 {
		t.Errorf("an Addr takes %d bytes, want 24", size)
	}
	buf := make([]byte, 0, 24)
	if n := testing.AllocsPerRun(100, func() { buf = a.Append(buf[:0]) }); n != 0 {
		t.Errorf("Append allocates %v times", n)
	}
}
