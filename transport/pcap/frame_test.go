package pcap

import (
	"bytes"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// TestFrames: addresses, ports, direction, mark, time and bytes of a packet each way.
func TestFrames(t *testing.T) {
	shm := transport.Addr{IP: [16]byte{0: 1, 8: 0xA1, 15: 0xA8}, Scope: 0x12345678, Port: 0xBEEF}
	wide := transport.Addr{IP: [16]byte{0: 0xFE, 1: 0x80, 8: 0xB1, 15: 0xB8}, Port: 0xABCDEF}
	scoped := transport.AddrFrom(netip.MustParseAddrPort("[fe80::5]:7"), 3)
	for _, x := range []struct {
		name      string
		own, peer transport.Addr
		version   int
		src, dst  string // of the packet that is sent
	}{
		{"IPv4", addr("10.0.0.1:31850"), addr("10.0.0.2:4000"), 4, "10.0.0.1:31850", "10.0.0.2:4000"},
		{"IPv6", addr("[2001:db8::1]:31850"), addr("[2001:db8::2]:65535"), 6, "[2001:db8::1]:31850",
			"[2001:db8::2]:65535"},
		{"link-local", addr("[fe80::1]:1"), scoped, 6, "[fe80::1]:1", "[fe80::5]:7"},
		{"both families", addr("10.0.0.1:1"), addr("[2001:db8::2]:2"), 6, "[::ffff:10.0.0.1]:1",
			"[2001:db8::2]:2"},
		{"all addresses", addr("[::]:1"), addr("10.0.0.2:2"), 4, "0.0.0.0:1", "10.0.0.2:2"},
		{"all IPv4 addresses", addr("0.0.0.0:1"), addr("[2001:db8::2]:2"), 6, "[::]:1",
			"[2001:db8::2]:2"},
		{"to all addresses", addr("10.0.0.1:1"), addr("[::]:2"), 4, "10.0.0.1:1", "0.0.0.0:2"},
		{"shared memory", shm, shm, 6, "[fd65:7270:6334:5678:a100::a8]:48879",
			"[fd65:7270:6334:5678:a100::a8]:48879"},
		{"shared memory and IPv4", addr("127.0.0.1:1"), shm, 6, "[::ffff:127.0.0.1]:1",
			"[fd65:7270:6334:5678:a100::a8]:48879"},
		{"a port of Geneve", addr("10.0.0.1:6081"), addr("10.0.0.2:6081"), 4, "10.0.0.1:6081",
			"10.0.0.2:6081"},
		{"wide port", wide, wide, 6, "[fd65:7270:6300:ab:b100::b8]:52719",
			"[fd65:7270:6300:ab:b100::b8]:52719"},
	} {
		t.Run(x.name, func(t *testing.T) {
			var file bytes.Buffer
			now := time.Unix(1_700_000_000, 123_456_789)
			c := start(t, &file, Config{Now: func() time.Time { return now }})
			f := &fake{local: x.own, mtu: 1400, take: 1, onTx: func() { now = now.Add(time.Hour) }}
			tr := c.Wrap(f)
			if n, err := tr.TxBurst([]transport.TxItem{{Dst: x.peer, Head: []byte("head "),
				Data: []byte("data")}}); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			f.rx = []transport.RxPacket{{Data: []byte("marked!"), From: x.peer, CE: true}, {From: x.peer}}
			if n, err := tr.RxBurst(make([]transport.RxPacket, 5)); n != 2 || err != nil {
				t.Fatal(n, err)
			}
			finish(t, c)
			got := read(t, file.Bytes())
			if len(got) != 3 || c.Counts() != (Counts{Packets: 3}) {
				t.Fatalf("%d records, counts %+v", len(got), c.Counts())
			}
			src, dst := netip.MustParseAddrPort(x.src), netip.MustParseAddrPort(x.dst)
			for i, want := range []record{
				{at: time.Unix(1_700_000_000, 123_456_789), src: src, dst: dst, payload: []byte("head data")},
				{at: time.Unix(1_700_003_600, 123_456_789), src: dst, dst: src, payload: []byte("marked!"),
					tos: 3},
				{at: time.Unix(1_700_003_600, 123_456_789), src: dst, dst: src},
			} {
				g := got[i]
				if g.src != want.src || g.dst != want.dst || g.version != x.version || !g.at.Equal(want.at) ||
					g.tos != want.tos || !bytes.Equal(g.payload, want.payload) {
					t.Errorf("record %d: %+v, want %+v", i, g, want)
				}
				if g.sent() != (i == 0) || g.hops != 64 || g.kept != g.length ||
					bytes.Equal(g.eth.SrcMAC, g.eth.DstMAC) {
					t.Errorf("record %d: %v, %d hops, %d of %d bytes", i, g.eth, g.hops, g.kept, g.length)
				}
			}
		})
	}
}

// TestAddressesStayApart: endpoints of shared memory that differ in any one bit that the
// mapping keeps are different in the capture.
func TestAddressesStayApart(t *testing.T) {
	base := transport.Addr{IP: [16]byte{0: 1}, Scope: 1, Port: 1}
	seen := map[place]bool{placeOf(&base): true}
	for bit := range 64 {
		a := base
		a.IP[8+bit/8] ^= 1 << (bit % 8)
		seen[placeOf(&a)] = true
	}
	for bit := range 24 {
		a := base
		a.Scope ^= 1 << bit
		seen[placeOf(&a)] = true
	}
	for bit := range 16 {
		a := base
		a.Port ^= 1 << bit
		seen[placeOf(&a)] = true
	}
	if len(seen) != 1+64+24+16 {
		t.Errorf("%d places", len(seen))
	}
	for p := range seen {
		if !netip.MustParsePrefix("fd65:7270:6300::/40").Contains(netip.AddrFrom16(p.ip)) {
			t.Errorf("%v is not below the documented prefix", netip.AddrFrom16(p.ip))
		}
	}
}

// TestSizes: from nothing to more than a jumbogram; the largest are cut at MaxSnapLen.
func TestSizes(t *testing.T) {
	for _, peer := range []transport.Addr{addr("10.0.0.2:2"), addr("[2001:db8::2]:2"),
		{IP: [16]byte{0: 1, 8: 1}, Scope: 1, Port: 1}} {
		var file bytes.Buffer
		c := start(t, &file, Config{})
		tr := c.Wrap(&fake{local: addr("10.0.0.1:1"), mtu: 1 << 20, take: 1})
		sizes := []int{0, 1, 23, 1400, 8952, 65507, 65508, 65527, 65528, 70_001, 100, 1 << 20, 101}
		data := make([]byte, 1<<20)
		for i := range data {
			data[i] = byte(i * 7 >> 3)
		}
		for _, n := range sizes {
			if _, err := tr.TxBurst([]transport.TxItem{{Dst: peer, Head: data[:n/3],
				Data: data[n/3 : n]}}); err != nil {
				t.Fatal(err)
			}
		}
		finish(t, c)
		got := read(t, file.Bytes())
		if len(got) != len(sizes) {
			t.Fatalf("%d records of %d", len(got), len(sizes))
		}
		for i, n := range sizes {
			g := got[i]
			headers := g.length - n
			want := data[:min(n, MaxSnapLen-headers)]
			if want4 := peer == addr("10.0.0.2:2") && n <= 65507; (g.version == 4) != want4 {
				t.Errorf("%v, %d bytes: IP version %d", peer, n, g.version)
			}
			if !bytes.Equal(g.payload, want) || headers < 42 || headers > 70 ||
				g.kept != min(g.length, MaxSnapLen) {
				t.Errorf("%v, %d bytes: %d of payload, %d of headers, %d kept", peer, n, len(g.payload),
					headers, g.kept)
			}
		}
	}
}

// TestSnapLen: what is kept of long frames, and that the short ones are whole.
func TestSnapLen(t *testing.T) {
	var file bytes.Buffer
	c := start(t, &file, Config{SnapLen: MinSnapLen, Buffer: MinSnapLen + recordHeader})
	tr := c.Wrap(newFake("[::1]:1"))
	data := bytes.Repeat([]byte("0123456789"), 100)
	for _, n := range []int{24, 25, 1000} {
		if _, err := tr.TxBurst([]transport.TxItem{{Dst: addr("[::1]:2"), Data: data[:n]}}); err != nil {
			t.Fatal(err)
		}
		for c.waiting() { // so that each record has the whole buffer
			runtime.Gosched()
		}
	}
	finish(t, c)
	got := read(t, file.Bytes())
	if len(got) != 3 {
		t.Fatalf("%d records", len(got))
	}
	for i, n := range []int{24, 25, 1000} {
		if g := got[i]; g.length != 62+n || g.kept != 86 || !bytes.Equal(g.payload, data[:24]) {
			t.Errorf("%d bytes: %d of %d kept, payload %q", n, g.kept, g.length, g.payload)
		}
	}
}

// waiting reports whether the writer has not taken all yet.
func (c *Capture) waiting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.fill) > 0 || c.spare == nil
}
