package udp

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/userspace-rpc/erpc/internal/invariants"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// fillPattern fills p with bytes that depend on seed and position, but for the one that says a
// loop.
func fillPattern(p []byte, seed int) []byte {
	for i := range p {
		p[i] = byte(seed*31 + i*7 + i>>8)
	}
	if len(p) > loopAt {
		p[loopAt] = 1
	}
	return p
}

// mixedItems makes items of random runs of sizes to dst[0] and dst[1], so that
// trains of many shapes come out, and returns what each destination must get.
func mixedItems(r *rand.Rand, dst [2]transport.Addr, count, mtu int) (items []transport.TxItem,
	want [2][][]byte) {
	sizes := []int{0, 1, 24, 48, txCopyMax, txCopyMax + 1, 1000, mtu}
	for len(items) < count {
		size, to := sizes[r.IntN(len(sizes))], r.IntN(2)
		for range 1 + r.IntN(20) {
			p := fillPattern(make([]byte, size), len(items))
			head := r.IntN(size + 1)
			items = append(items, transport.TxItem{Dst: dst[to], Head: p[:head:head], Data: p[head:]})
			want[to] = append(want[to], p)
		}
		if size > 1 { // a shorter last one
			p := fillPattern(make([]byte, 1+r.IntN(size-1)), len(items))
			items = append(items, transport.TxItem{Dst: dst[to], Head: p})
			want[to] = append(want[to], p)
		}
	}
	return items, want
}

// TestMixedTrains sends bursts of many shapes to two destinations, receives with
// slices smaller than the trains, and checks every byte, order and source.
func TestMixedTrains(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			a, b, c := listen(t, v.addr, v.cfg), listen(t, v.addr, v.cfg), listen(t, v.addr, v.cfg)
			r := rand.New(rand.NewPCG(1, 2))
			for range 20 {
				items, want := mixedItems(r, [2]transport.Addr{b.LocalAddr(), c.LocalAddr()}, 150, a.Caps().MTU)
				transmit(t, a, items)
				checkPackets(t, receive(t, b, len(want[0]), 7), want[0], a.LocalAddr())
				checkPackets(t, receive(t, c, len(want[1]), 64), want[1], a.LocalAddr())
			}
			if s := a.Stats(); s.TxDropped != 0 {
				t.Errorf("%d packets were dropped when sent", s.TxDropped)
			}
		})
	}
}

func checkPackets(t *testing.T, got []transport.RxPacket, want [][]byte, from transport.Addr) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d packets, want %d", len(got), len(want))
	}
	for i, p := range got {
		if !bytes.Equal(p.Data, want[i]) {
			t.Fatalf("packet %d has %d bytes, want %d, or other contents", i, len(p.Data), len(want[i]))
		}
		if p.From != from {
			t.Fatalf("packet %d is from %v, want %v", i, p.From, from)
		}
	}
}

// TestTrainsAreTrains counts system calls: a burst of equal packets is one call
// out and one in.
func TestTrainsAreTrains(t *testing.T) {
	if f := Probe(); !f.GSO || !f.GRO {
		t.Skipf("the kernel has no trains: %+v", f)
	}
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		a, b := listen(t, addr, Config{}), listen(t, addr, Config{})
		dst := reach(t, a, b)
		_, err := b.RxBurst(make([]transport.RxPacket, 1)) // asks for trains
		if err != nil {
			t.Fatal(err)
		}
		items := make([]transport.TxItem, maxSegments())
		for i := range items {
			items[i] = transport.TxItem{Dst: dst, Head: make([]byte, 24), Data: make([]byte, 24)}
		}
		transmit(t, a, items)
		receive(t, b, len(items), len(items))
		if tx, rx := a.Stats().TxCalls, b.Stats().RxCalls-1; tx != 1 || rx > 2 {
			t.Errorf("%s: %d packets took %d calls to send and %d to receive, want 1 and 1 or 2", addr,
				len(items), tx, rx)
		}
	}
}

// TestManagementApart: a management packet and a shorter or longer one form no train, which would
// be lost as a whole where the longer one does not get through.
func TestManagementApart(t *testing.T) {
	a := listen(t, "127.0.0.1:0", Config{})
	tx := &a.impl.(*kernelConn).tx
	if tx.segments == 1 {
		t.Skip("the kernel has no trains")
	}
	item := func(typ wire.Type, size int) transport.TxItem {
		b := make([]byte, size)
		h := wire.Header{Type: typ}
		h.Put(b, 0)
		return transport.TxItem{Dst: a.LocalAddr(), Head: b}
	}
	const mgmt = wire.TypeMgmt
	for typ := wire.TypeReq; typ <= wire.TypeBundle; typ++ {
		apart := 2
		if typ == mgmt {
			apart = 1
		}
		for _, c := range []struct {
			first, second transport.TxItem
			want          int
		}{
			{item(typ, 1000), item(typ, 100), apart},
			{item(typ, 1000), item(mgmt, 100), 1},
			{item(mgmt, 1000), item(typ, 100), 1},
			{item(typ, 1000), item(mgmt, 1000), 2},
			{item(typ, 100), item(mgmt, 1000), 1},
		} {
			n, bytes := tx.measure([]transport.TxItem{c.first, c.second}, len(c.first.Head))
			if size := len(c.first.Head) + (n-1)*len(c.second.Head); n != c.want || bytes != size {
				t.Errorf("%v: %d of %d and %d bytes in a train, want %d", typ, n, len(c.first.Head),
					len(c.second.Head), c.want)
			}
		}
	}
}

// reach returns an address of b that a can send to, also if b listens on all addresses.
func reach(tb testing.TB, a, b *Conn) transport.Addr {
	tb.Helper()
	dst := b.LocalAddr()
	if !dst.AddrPort().Addr().IsUnspecified() {
		return dst
	}
	dst, err := a.Resolve("127.0.0.1:" + portText(b))
	if err != nil {
		tb.Fatal(err)
	}
	return dst
}

// TestRefusedTrain has the kernel refuse trains, as it does on routes that cannot
// checksum: the packets still arrive, each once and in order, and no train is tried again.
func TestRefusedTrain(t *testing.T) {
	a, b := listen(t, "127.0.0.1:0", Config{}), listen(t, "127.0.0.1:0", Config{})
	tx := &a.impl.(*kernelConn).tx
	tx.segments = 4 * newSegments // more than any kernel takes: EINVAL
	items := make([]transport.TxItem, 300)
	want := make([][]byte, len(items))
	for i := range items {
		want[i] = fillPattern(make([]byte, 48), i)
		items[i] = transport.TxItem{Dst: b.LocalAddr(), Head: want[i]}
	}
	transmit(t, a, items)
	checkPackets(t, receive(t, b, len(items), 64), want, a.LocalAddr())
	if tx.segments != 1 {
		t.Errorf("trains of %d packets are still tried", tx.segments)
	}
	if s := a.Stats(); s.TxPackets != 300 || s.TxDropped != 0 {
		t.Errorf("stats %+v, want 300 packets and none dropped", s)
	}
}

// TestRefusedTrainAhead has the kernel refuse a train whose packets are in two parts, with small
// packets to somebody else behind it in the burst: they arrive unharmed.
func TestRefusedTrainAhead(t *testing.T) {
	a, b, c := listen(t, "127.0.0.1:0", Config{}), listen(t, "127.0.0.1:0", Config{}),
		listen(t, "127.0.0.1:0", Config{})
	a.impl.(*kernelConn).tx.segments = 4 * newSegments
	var items []transport.TxItem
	var long, short [][]byte
	for i := range 160 {
		p := fillPattern(make([]byte, 400), i)
		if i >= 150 {
			p = fillPattern(make([]byte, 48), i)
			short = append(short, p)
			items = append(items, transport.TxItem{Dst: c.LocalAddr(), Head: p})
			continue
		}
		long = append(long, p)
		items = append(items, transport.TxItem{Dst: b.LocalAddr(), Head: p[:24], Data: p[24:]})
	}
	transmit(t, a, items)
	checkPackets(t, receive(t, b, len(long), 64), long, a.LocalAddr())
	checkPackets(t, receive(t, c, len(short), 64), short, a.LocalAddr())
}

// TestKernelTooLong has the kernel refuse packets for their length, alone, in a
// burst and in a train: they count as dropped, the others arrive.
func TestKernelTooLong(t *testing.T) {
	a, b := listen(t, "127.0.0.1:0", Config{}), listen(t, "127.0.0.1:0", Config{})
	a.impl.(*kernelConn).tx.mtu = 1 << 17 // let them through to the kernel
	long := transport.TxItem{Dst: b.LocalAddr(), Head: make([]byte, MaxMTU4+1)}
	short := transport.TxItem{Dst: b.LocalAddr(), Head: make([]byte, 9)}
	transmit(t, a, []transport.TxItem{long})
	transmit(t, a, []transport.TxItem{short, long, long, short})
	receive(t, b, 2, 8)
	if s := a.Stats(); s.TxDropped != 3 || s.TxPackets != 2 {
		t.Errorf("stats %+v, want 3 dropped and 2 sent", s)
	}
}

// TestBatchLimits sends more trains, pieces and staged bytes than one sendmmsg takes.
func TestBatchLimits(t *testing.T) {
	a, b := listen(t, "127.0.0.1:0", Config{MTU: 8192}), listen(t, "127.0.0.1:0", Config{MTU: 8192})
	for _, size := range []int{1, txCopyMax, txCopyMax + 1, 8192} {
		items := make([]transport.TxItem, 400)
		want := make([][]byte, len(items))
		for i := range items {
			n := size
			if i%5 == 4 {
				n = size/2 + 1
			}
			want[i] = fillPattern(make([]byte, n), i)
			items[i] = transport.TxItem{Dst: b.LocalAddr(), Head: want[i][:n/3], Data: want[i][n/3:]}
		}
		transmit(t, a, items)
		checkPackets(t, receive(t, b, len(items), 31), want, a.LocalAddr())
	}
	for i := range a.impl.(*kernelConn).tx.vectors {
		if v := &a.impl.(*kernelConn).tx.vectors[i]; v.Base != nil {
			t.Fatalf("piece %d still points to the caller's memory", i)
		}
	}
}

// TestAllocs sends and receives bursts of one and of many, and waits.
func TestAllocs(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector allocates")
	}
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0", ":0", "0.0.0.0:0"} {
		a, b := listen(t, addr, Config{ECN: true}), listen(t, addr, Config{ECN: true})
		dst := reach(t, a, b)
		transmit(t, b, []transport.TxItem{{Dst: reach(t, b, a)}}) // a knows b now
		receive(t, a, 1, 1)
		items := make([]transport.TxItem, 64)
		for i := range items {
			items[i] = transport.TxItem{Dst: dst, Head: make([]byte, 24), Data: make([]byte, 8*(1+i%3))}
		}
		pkts := make([]transport.RxPacket, 16)
		for _, burst := range []int{1, len(items)} {
			allocs := testing.AllocsPerRun(100, func() {
				if n, err := a.TxBurst(items[:burst]); n != burst || err != nil {
					t.Fatal(n, err)
				}
				for got := 0; got < burst; {
					n, err := b.RxBurst(pkts)
					if err != nil {
						t.Fatal(err)
					}
					if got += n; n == 0 {
						_ = b.Wait(-1)
					}
				}
				b.Wake()
				if err := b.Wait(-1); err != nil {
					t.Fatal(err)
				}
				_ = b.Wait(0)
			})
			if allocs != 0 {
				t.Errorf("%s, burst of %d: %v allocations", addr, burst, allocs)
			}
		}
	}
}
