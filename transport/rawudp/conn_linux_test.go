package rawudp

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/conformance"
)

// TestConformance runs the suite over devices of several kinds: with frames of their own as AF_XDP
// has them, short of frames, with trains, with pieces, and with trains that are refused.
func TestConformance(t *testing.T) {
	for _, v := range []struct {
		name string
		kind memKind
	}{{"plain", plainKind}, {"stingy", stingyKind}, {"trains", trainKind}, {"gather",
		gatherKind}, {"refused", refuseKind}} {
		t.Run(v.name, func(t *testing.T) {
			var w *wire
			open := func(tb testing.TB) (a, b transport.Transport) {
				w = newWire()
				return w.open(tb, v.kind, Config{}), w.open(tb, v.kind, Config{})
			}
			third := func(tb testing.TB) transport.Transport { return w.open(tb, v.kind, Config{}) }
			conformance.Run(t, open, conformance.WithThird(third), conformance.WithoutSelf())
		})
	}
}

func item(to *memEnd, size int) transport.TxItem {
	return transport.TxItem{Dst: to.LocalAddr(), Head: make([]byte, size)}
}

// take receives what is there, and checks that these sizes came.
func take(t *testing.T, c *memEnd, sizes ...int) {
	t.Helper()
	var pkts [64]transport.RxPacket
	var got []int
	for {
		n, err := c.RxBurst(pkts[:])
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
		for _, p := range pkts[:n] {
			got = append(got, len(p.Data))
		}
	}
	if len(got) != len(sizes) {
		t.Fatalf("received %v, want %v", got, sizes)
	}
	for i := range got {
		if got[i] != sizes[i] {
			t.Fatalf("received %v, want %v", got, sizes)
		}
	}
}

// TestStall: what a device does not take was not seen, and is not counted; packets that can never
// be sent, before and behind, are counted once.
func TestStall(t *testing.T) {
	w := newWire()
	a, b := w.open(t, memKind{caps: plainCaps, lend: 4, take: 2}, Config{}),
		w.open(t, plainKind, Config{})
	items := []transport.TxItem{
		{Dst: b.LocalAddr(), Head: make([]byte, 5000)}, item(b, 1), {}, item(b, 2),
		{Head: make([]byte, 5)}, item(b, 3), item(b, 4), {Dst: b.LocalAddr(), Head: make([]byte, 5000)},
	}
	n, err := a.TxBurst(items)
	if n != 4 || err != nil {
		t.Fatalf("TxBurst = %d, %v, want 4", n, err)
	}
	if s := a.Stats(); s.TxPackets != 2 || s.TxDropped != 2 || s.TxStalls != 1 {
		t.Errorf("%+v", s)
	}
	take(t, b, 1, 2)
	if n, err = a.TxBurst(items[4:]); n != 4 || err != nil {
		t.Fatalf("TxBurst = %d, %v, want 4", n, err)
	}
	if s := a.Stats(); s.TxPackets != 4 || s.TxDropped != 4 || s.TxStalls != 1 || s.TxBytes != 10 {
		t.Errorf("%+v", s)
	}
	take(t, b, 3, 4)
}

// TestRefusedTrains: trains that the device refuses leave as packets, and are not tried again.
func TestRefusedTrains(t *testing.T) {
	w := newWire()
	a, b := w.open(t, refuseKind, Config{}), w.open(t, plainKind, Config{})
	items := []transport.TxItem{item(b, 10), item(b, 10), item(b, 300), item(b, 300), item(b, 300),
		item(b, 7)}
	for range 2 {
		if n, err := a.TxBurst(items); n != len(items) || err != nil {
			t.Fatalf("TxBurst = %d, %v", n, err)
		}
		take(t, b, 10, 10, 300, 300, 300, 7)
	}
	if s := a.Stats(); s.TxPackets != 12 || s.TxDropped != 0 || s.TxStalls != 0 {
		t.Errorf("%+v", s)
	}
	if a.dev.trains != 2 {
		t.Errorf("%d trains tried", a.dev.trains)
	}
}

// TestTrainShapes: equal packets to one peer are one frame, up to a shorter last one.
func TestTrainShapes(t *testing.T) {
	for _, kind := range []memKind{trainKind, gatherKind} {
		w := newWire()
		a, b, c := w.open(t, kind, Config{}), w.open(t, kind, Config{}), w.open(t, kind, Config{})
		items := []transport.TxItem{item(b, 9), item(b, 9), item(b, 8), item(b, 9), item(c, 9),
			item(c, 9), item(c, 1400), item(c, 1400)}
		if _, err := a.TxBurst(items); err != nil {
			t.Fatal(err)
		}
		if s := a.Stats(); s.TxCalls != 1 || a.dev.trains != 3 {
			t.Errorf("%d calls, %d trains", s.TxCalls, a.dev.trains)
		}
		take(t, b, 9, 9, 8, 9)
		take(t, c, 9, 9, 1400, 1400)
	}
}

// TestPendingNeighbour: while the kernel looks for a neighbour packets to it are dropped, it is not
// asked for each, and when it is found packets leave.
func TestPendingNeighbour(t *testing.T) {
	w := newWire()
	a, b := w.open(t, plainKind, Config{}), w.open(t, plainKind, Config{})
	ip := b.LocalAddr().AddrPort().Addr()
	a.net.hide[ip] = true
	for range 10 {
		if n, err := a.TxBurst([]transport.TxItem{item(b, 5)}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if s := a.Stats(); s.TxDropped != 10 || a.net.asked > 5 {
		t.Errorf("%+v; asked %d times", s, a.net.asked)
	}
	a.net.tell(func(tell func(netip.Addr, MAC, bool)) (bool, bool) {
		tell(ip, b.dev.mac, true)
		return false, false
	})
	if err := a.Wait(-1); err != nil { // the news wake it
		t.Fatal(err)
	}
	if _, err := a.TxBurst([]transport.TxItem{item(b, 5)}); err != nil {
		t.Fatal(err)
	}
	take(t, b, 5)
	if a.tx.pending != 0 {
		t.Errorf("%d neighbours pending", a.tx.pending)
	}
}

// TestMoves: a neighbour gets another MAC address, and the routes change.
func TestMoves(t *testing.T) {
	w := newWire()
	a, b, c := w.open(t, plainKind, Config{}), w.open(t, plainKind, Config{}),
		w.open(t, plainKind, Config{})
	send := func() {
		t.Helper()
		if _, err := a.TxBurst([]transport.TxItem{item(b, 5)}); err != nil {
			t.Fatal(err)
		}
	}
	send()
	take(t, b, 5)
	a.net.tell(func(tell func(netip.Addr, MAC, bool)) (bool, bool) {
		tell(b.LocalAddr().AddrPort().Addr(), c.dev.mac, true)
		return false, false
	})
	if err := a.Wait(-1); err != nil {
		t.Fatal(err)
	}
	send()
	take(t, b)
	asked := a.net.routes
	a.net.tell(func(func(netip.Addr, MAC, bool)) (bool, bool) { return true, false })
	if err := a.Wait(-1); err != nil {
		t.Fatal(err)
	}
	send()
	take(t, b, 5)
	if a.net.routes != asked+1 {
		t.Errorf("%d routes asked for after the change", a.net.routes-asked)
	}
}

// TestConfirm: now and then the kernel learns which neighbours were sent to since.
func TestConfirm(t *testing.T) {
	w := newWire()
	a, b, c := w.open(t, plainKind, Config{}), w.open(t, plainKind, Config{}),
		w.open(t, plainKind, Config{})
	for round, to := range []*memEnd{b, c, b, nil} {
		a.net.inUse = nil
		var want []netip.Addr
		if to != nil {
			if _, err := a.TxBurst([]transport.TxItem{item(to, 5)}); err != nil {
				t.Fatal(err)
			}
			want = append(want, to.LocalAddr().AddrPort().Addr())
		}
		a.tx.confirmed = a.tx.confirmed.Add(-confirmEvery - 1) // that much time has passed
		a.tend()
		if !slices.Equal(a.net.inUse, want) {
			t.Errorf("round %d: confirmed %v, want %v", round, a.net.inUse, want)
		}
		a.net.inUse = nil
		if a.tend(); a.net.inUse != nil {
			t.Errorf("round %d: confirmed again at once", round)
		}
	}
}

// TestLinkNews: the Conn follows its link: down, up with another MAC address and MTU, gone.
func TestLinkNews(t *testing.T) {
	w := newWire()
	a, b := w.open(t, plainKind, Config{LinkGrace: -1}), w.open(t, plainKind, Config{})
	change := func(edit func(l *Link)) {
		t.Helper()
		a.net.tell(func(func(netip.Addr, MAC, bool)) (bool, bool) {
			edit(&a.net.link)
			return false, true
		})
		if err := a.Wait(-1); err != nil {
			t.Fatal(err)
		}
	}
	fails := func(want error) {
		t.Helper()
		var pkts [1]transport.RxPacket
		_, txErr := a.TxBurst([]transport.TxItem{item(b, 5)})
		_, rxErr := a.RxBurst(pkts[:])
		for _, err := range []error{txErr, rxErr} {
			if e, ok := errors.AsType[*LinkError](err); want != nil && (!ok || e.Link != "mem0" ||
				e.Err != want) || want == nil && err != nil {
				t.Errorf("%v, want %v", err, want)
			}
		}
	}
	change(func(l *Link) { l.Up = false })
	fails(ErrLinkDown)
	change(func(l *Link) { l.Up, l.MAC, l.MTU = true, MAC{2, 9}, 300 })
	fails(nil)
	take(t, b, 5)
	if n := a.Path(b.LocalAddr()).MTU; n != 300-28 {
		t.Errorf("Path.MTU = %d", n)
	}
	if _, err := a.TxBurst([]transport.TxItem{item(b, 273), item(b, 272)}); err != nil {
		t.Fatal(err)
	}
	take(t, b, 272)
	change(func(l *Link) { l.MTU = 27 }) // less than the headers
	if n := a.Path(b.LocalAddr()).MTU; n != 1 {
		t.Errorf("Path.MTU = %d, want 1", n)
	}
	change(func(l *Link) { l.MTU = 300 })
	if a.Link().MAC != (MAC{2, 9}) || a.codec.Local().MAC != (MAC{2, 9}) {
		t.Errorf("MAC address %v, the codec's %v", a.Link().MAC, a.codec.Local().MAC)
	}
	change(func(l *Link) { l.Index, l.Up = 0, false })
	fails(ErrLinkGone)
	change(func(l *Link) { l.Index, l.Up = 7, true })
	fails(nil)
	take(t, b, 5)
}

// TestPath: what is known of any destination.
func TestPath(t *testing.T) {
	for _, without := range []bool{false, true} {
		w := newWire()
		d := w.device(t, plainKind)
		local := Local{IP: netip.MustParseAddr("10.0.0.1"), Port: 700, NoChecksum: without}
		c, err := New(d, newMemNet(t, d.mac, 1500), local, Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		want := transport.Path{
			MTU: 1472, HostDelay: 100 * time.Microsecond, Checksummed: !without,
		}
		for _, dst := range []transport.Addr{{}, item(w.open(t, plainKind, Config{}), 1).Dst} {
			if got := c.Path(dst); got != want {
				t.Errorf("NoChecksum %v: Path(%v) = %+v, want %+v", without, dst, got, want)
			}
		}
	}
}

// TestWaitEndsWithGrace: while the link is given time, Wait ends with that time, so that a burst
// can say what is wrong.
func TestWaitEndsWithGrace(t *testing.T) {
	w := newWire()
	a := w.open(t, plainKind, Config{LinkGrace: 5 * time.Millisecond})
	for range 10 { // the time may be over before Wait is called, and nothing ends it then
		up := a.link.Link
		down := up
		down.Up = false
		a.link.set(down, monotime.Now())
		guard := time.AfterFunc(time.Second, a.Wake)
		if err := a.Wait(-1); err != nil {
			t.Fatal(err)
		}
		if guard.Stop() {
			return
		}
		a.link.set(up, 0)
	}
	t.Error("Wait does not end")
}

// TestDeviceFails: errors of the device that are not the link's are final and say which link.
func TestDeviceFails(t *testing.T) {
	w := newWire()
	a, b := w.open(t, plainKind, Config{LinkGrace: -1}), w.open(t, plainKind, Config{})
	boom := errors.New("boom")
	a.dev.kind.offline = boom
	if n, err := a.TxBurst([]transport.TxItem{item(b, 5)}); n != 0 || !errors.Is(err, boom) {
		t.Errorf("TxBurst = %d, %v", n, err)
	}
	a.dev.kind.offline = ErrLinkDown // before the network has told
	n, err := a.TxBurst([]transport.TxItem{item(b, 5)})
	if e, ok := errors.AsType[*LinkError](err); n != 0 && err != nil ||
		err != nil && (!ok || e.Link != "mem0") {
		t.Errorf("TxBurst = %d, %v", n, err)
	}
	a.dev.kind.offline = nil
	var pkts [1]transport.RxPacket
	for range 2 * tendEveryBusy {
		_, _ = a.RxBurst(pkts[:])
	}
	if _, err := a.TxBurst([]transport.TxItem{item(b, 6)}); err != nil {
		t.Fatal(err)
	}
	take(t, b, 6)
}

// TestNoRoute: such packets are dropped, Resolve says why.
func TestNoRoute(t *testing.T) {
	w := newWire()
	a := w.open(t, plainKind, Config{})
	_, err := a.Resolve("192.0.2.1:5")
	if e, ok := errors.AsType[*NeighbourError](err); !ok || e.Err != ErrNoRoute {
		t.Errorf("Resolve: %v", err)
	}
	to := transport.AddrFrom(netip.MustParseAddrPort("192.0.2.1:5"), 0)
	if n, err := a.TxBurst([]transport.TxItem{{Dst: to, Head: []byte("x")},
		{Dst: to, Head: []byte("x")}}); n != 2 || err != nil {
		t.Errorf("TxBurst = %d, %v", n, err)
	}
	if s := a.Stats(); s.TxDropped != 2 || a.net.routes != 2 {
		t.Errorf("%+v, %d routes asked for", s, a.net.routes)
	}
}
