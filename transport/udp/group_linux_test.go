package udp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// openGroup opens a group that the test's end closes.
func openGroup(t *testing.T, addr string, n int, cfg Config) []*Conn {
	t.Helper()
	conns, err := ListenGroup(addr, n, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, c := range conns {
			_ = c.Close()
		}
	})
	return slices.Clone(conns)
}

// loopPacket returns a packet of a size for a session field, with a number in its last bytes.
func loopPacket(field uint32, size, number int) []byte {
	b := make([]byte, size)
	copy(b, "header")
	if size >= 12 {
		binary.LittleEndian.PutUint32(b[8:], field)
	}
	if size >= 16 {
		binary.LittleEndian.PutUint32(b[size-4:], uint32(number))
	}
	return b
}

// arrivals receives n packets of a group, and returns how many each socket got and the numbers in
// them. Nil stands for a socket that was closed.
func arrivals(t *testing.T, conns []*Conn, n int) (count []int, numbers [][]uint32) {
	t.Helper()
	count, numbers = make([]int, len(conns)), make([][]uint32, len(conns))
	pkts := make([]transport.RxPacket, 64)
	for end := time.Now().Add(10 * time.Second); n > 0; {
		if time.Now().After(end) {
			t.Fatalf("%d packets are missing, came %v", n, count)
		}
		found := 0
		for i, c := range conns {
			if c == nil {
				continue
			}
			k, err := c.RxBurst(pkts)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range pkts[:k] {
				if len(p.Data) >= 16 {
					numbers[i] = append(numbers[i], binary.LittleEndian.Uint32(p.Data[len(p.Data)-4:]))
				}
			}
			count[i] += k
			found += k
		}
		if n -= found; found == 0 {
			runtime.Gosched()
		}
	}
	return count, numbers
}

// TestGroupSteers: the kernel gives each socket the packets for its loop, also after sockets were
// closed in any order. Packets that name no open loop come to some socket.
func TestGroupSteers(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", ":0"} {
		for _, order := range [][]int{{1, 2, 3, 4}, {4, 3, 2, 1}, {1, 3, 4, 2}, {2, 1, 4, 3}} {
			t.Run(fmt.Sprint(addr, order), func(t *testing.T) { steers(t, addr, order) })
		}
	}
}

func steers(t *testing.T, addr string, order []int) {
	conns := openGroup(t, addr, 4, Config{})
	var clients []*Conn
	for range 16 { // the hash is of their addresses
		c, err := Listen("127.0.0.1:0", Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		clients = append(clients, c)
	}
	for _, c := range conns[1:] {
		if c.LocalAddr() != conns[0].LocalAddr() {
			t.Fatalf("%v and %v", conns[0].LocalAddr(), c.LocalAddr())
		}
	}
	to, err := clients[0].Resolve(fmt.Sprintf("127.0.0.1:%d", conns[0].LocalAddr().Port))
	if err != nil {
		t.Fatal(err)
	}
	all := func(size int, field uint32, change func([]byte)) []int {
		t.Helper()
		for i, c := range clients {
			pkt := loopPacket(field, size, i)
			if change != nil {
				change(pkt)
			}
			if _, err := c.TxBurst([]transport.TxItem{{Dst: to, Head: pkt}}); err != nil {
				t.Fatal(err)
			}
		}
		count, _ := arrivals(t, conns, len(clients))
		return count
	}
	for _, gone := range append([]int{0}, order[:3]...) {
		if gone > 0 {
			if err := conns[gone-1].Close(); err != nil {
				t.Fatal(err)
			}
			conns[gone-1] = nil
		}
		for loop := range uint8(6) {
			here := loop >= 1 && loop <= 4 && conns[loop-1] != nil
			for name, got := range map[string][]int{
				"a session":   all(24, wire.FirstOf(loop)+7, nil),
				"key phase":   all(24, wire.KeyPhase|wire.FirstOf(loop)+7, nil),
				"asks for it": all(88, wire.FirstOf(loop)|wire.NoSession, nil),
				"least":       all(12, wire.FirstOf(loop), nil),
				"a cookie": all(1472, wire.NoSession, func(b []byte) {
					b[wire.CookieLoop] = loop
				}),
				"a small one": all(wire.HeaderSize+wire.ConnectSize, wire.NoSession|wire.KeyPhase,
					func(b []byte) { b[wire.CookieLoop] = loop }),
			} {
				if here && got[loop-1] != len(clients) {
					t.Errorf("loop %d, %s: came %v, closed so far %d", loop, name, got, gone)
				}
				if !here && slices.Max(got) == len(clients) && gone == 0 {
					t.Errorf("loop %d, %s: no hash decides: %v", loop, name, got)
				}
			}
		}
		for size := range 13 { // too short to say anything
			all(size, wire.FirstOf(1), nil)
		}
		all(wire.HeaderSize+wire.ConnectSize-1, wire.NoSession, func(b []byte) { b[wire.CookieLoop] = 1 })
	}
}

// TestGroupConstants: the filter and package wire agree on the format of packets.
func TestGroupConstants(t *testing.T) {
	pkt := make([]byte, wire.HeaderSize)
	h := wire.Header{Session: wire.FirstOf(wire.MaxLoop)}
	h.Put(pkt, 0)
	if pkt[loopAt] != loopMask || MaxGroup != wire.MaxLoop || noSession != wire.NoSession ||
		cookieLoop != wire.CookieLoop || openerSize != wire.HeaderSize+wire.ConnectSize {
		t.Error("they differ")
	}
	c := wire.Connect{}
	for i := range c.Cookie {
		c.Cookie[i] = byte(i)
	}
	body := make([]byte, wire.ConnectSize)
	c.Put(body)
	if body[cookieLoop-wire.HeaderSize] != wire.CookieLoopAt {
		t.Error("the loop is elsewhere in the cookie")
	}
}

// TestGroupLargest: as many sockets as there can be, closed one after the other.
func TestGroupLargest(t *testing.T) {
	conns := openGroup(t, "127.0.0.1:0", MaxGroup, Config{
		RecvBuffer: 1 << 16, SendBuffer: 1 << 16, MTU: 1472, NoGRO: true})
	client := openGroup(t, "127.0.0.1:0", 1, Config{})[0]
	left := slices.Clone(conns)
	for i := 0; i < MaxGroup-1; i += 9 { // a hole here and there: the filter has exceptions
		if err := conns[i].Close(); err != nil {
			t.Fatal(err)
		}
		left[i] = nil
	}
	n := 0
	for i, c := range left {
		if c != nil {
			pkt := loopPacket(wire.FirstOf(uint8(i+1)), 24, i)
			items := []transport.TxItem{{Dst: conns[0].LocalAddr(), Head: pkt}}
			if _, err := client.TxBurst(items); err != nil {
				t.Fatal(err)
			}
			n++
		}
	}
	count, _ := arrivals(t, left, n)
	for i, c := range left {
		if c != nil && count[i] != 1 {
			t.Errorf("socket %d got %d packets", i, count[i])
		}
	}
}

// TestTrainsOfOneLoop: packets for several loops leave in trains of one loop each, in their order.
func TestTrainsOfOneLoop(t *testing.T) {
	conns := openGroup(t, "127.0.0.1:0", 2, Config{})
	client := openGroup(t, "127.0.0.1:0", 1, Config{})[0]
	for _, size := range []int{40, 600} {
		var items []transport.TxItem
		want := make([][]uint32, 2)
		for i := range 60 {
			loop := 1 + i/7%2
			pkt := loopPacket(wire.FirstOf(uint8(loop)), size-i%21/20*5, i) // some are shorter
			items = append(items, transport.TxItem{Dst: conns[0].LocalAddr(),
				Head: pkt[:24], Data: pkt[24:]})
			want[loop-1] = append(want[loop-1], uint32(i))
		}
		before := client.Stats().TxCalls
		if n, err := client.TxBurst(items); n != len(items) || err != nil {
			t.Fatal(n, err)
		}
		_, numbers := arrivals(t, conns, len(items))
		for i := range want {
			if !slices.Equal(numbers[i], want[i]) {
				t.Errorf("%d bytes, socket %d: %v, want %v", size, i, numbers[i], want[i])
			}
		}
		if calls := client.Stats().TxCalls - before; Probe().GSO && calls > 2 {
			t.Errorf("%d system calls", calls)
		}
	}
}

// TestGroupRefused: some configurations can be no group, and nobody else gets a group's address.
func TestGroupRefused(t *testing.T) {
	for name, c := range map[string]struct {
		n    int
		cfg  Config
		want error
	}{
		"none": {0, Config{}, nil}, "too many": {MaxGroup + 1, Config{}, nil},
		"portable": {2, Config{Portable: true}, transport.ErrUnsupported},
	} {
		var bad *GroupError
		conns, err := ListenGroup("127.0.0.1:0", c.n, c.cfg)
		if !errors.As(err, &bad) || bad.Sockets != c.n || conns != nil ||
			!errors.Is(err, c.want) && c.want != nil {
			t.Errorf("%s: %v, %v", name, conns, err)
		}
	}
	var bad *ConfigError
	if _, err := ListenGroup("127.0.0.1:0", 2, Config{ReusePort: true}); !errors.As(err, &bad) {
		t.Errorf("ReusePort: %v", err)
	}
	if _, err := ListenGroup("127.0.0.1:0", 2, Config{MTU: 1}); !errors.As(err, &bad) {
		t.Errorf("MTU: %v", err)
	}
	if _, err := ListenGroup("no port", 2, Config{}); !errors.Is(err, transport.ErrBadAddress) {
		t.Errorf("address: %v", err)
	}
	conns := openGroup(t, "127.0.0.1:0", 3, Config{})
	addr := conns[0].LocalAddr().String()
	if _, err := ListenGroup(addr, 2, Config{}); err == nil {
		t.Error("two groups on one address")
	}
	if _, err := Listen(addr, Config{}); err == nil {
		t.Error("another socket on the address of a group")
	}
	if alone := openGroup(t, "127.0.0.1:0", 1, Config{Portable: true}); len(alone) != 1 {
		t.Errorf("one alone: %v", alone)
	}
}
