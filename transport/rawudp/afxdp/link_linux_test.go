package afxdp

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/rawudp"
	"github.com/userspace-rpc/erpc/transport/rawudp/vethtest"
)

// untilErr waits until both bursts of c return an error, and checks that it names the link.
// It returns how often Wait returned.
func untilErr(t *testing.T, c *Conn, link string, why error) (waits int) {
	t.Helper()
	var pkts [8]transport.RxPacket
	for end := time.Now().Add(patience); ; waits++ {
		_, err := c.RxBurst(pkts[:])
		if err != nil {
			_, txErr := c.TxBurst([]transport.TxItem{{Dst: c.LocalAddr(), Head: make([]byte, 8)}})
			if txErr == nil {
				t.Fatalf("RxBurst: %v, but TxBurst works", err)
			}
			if e, ok := errors.AsType[*rawudp.LinkError](err); !ok || e.Link != link {
				t.Fatalf("error %v (%T) does not name %s", err, err, link)
			}
			if errors.Is(err, why) {
				return waits
			}
		}
		if time.Now().After(end) {
			t.Fatalf("the bursts end with %v, want %v", err, why)
		}
		if err := c.Wait(patience); err != nil {
			t.Fatal(err)
		}
	}
}

// untilWorks waits until RxBurst of c works again. It returns how often Wait returned.
func untilWorks(t *testing.T, c *Conn) (waits int) {
	t.Helper()
	var pkts [8]transport.RxPacket
	for end := time.Now().Add(patience); ; waits++ {
		_, err := c.RxBurst(pkts[:])
		if err == nil {
			return waits
		}
		if time.Now().After(end) {
			t.Fatalf("the link is back, but %v", err)
		}
		if err := c.Wait(patience); err != nil {
			t.Fatal(err)
		}
	}
}

// exchange sends packets from a to b until one arrives: neighbours may have to be found first.
func exchange(t *testing.T, a, b *Conn) {
	t.Helper()
	var pkts [8]transport.RxPacket
	for end := time.Now().Add(patience); ; {
		n, err := b.RxBurst(pkts[:])
		if n > 0 {
			return
		}
		if err == nil {
			_, err = a.TxBurst([]transport.TxItem{{Dst: b.LocalAddr(), Head: []byte("hello")}})
		}
		if err != nil {
			t.Fatal(err)
		}
		if time.Now().After(end) {
			t.Fatalf("nothing arrives: %+v, %+v", a.Stats(), b.Stats())
		}
		if err := b.Wait(time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if _, err := a.RxBurst(pkts[:]); err != nil { // it looks after the neighbours
			t.Fatal(err)
		}
		if err := a.Wait(time.Nanosecond); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLinkFlaps takes the link down and up many times: the endpoint says so with an error that
// names the link, sleeps meanwhile, and works again when it is back.
func TestLinkFlaps(t *testing.T) {
	times := 100
	if testing.Short() {
		times = 10
	}
	p := vethtest.New(t, 1500)
	a := listenOn(t, p.A, p.A.IP4, Config{LinkGrace: -1})
	b := listenOn(t, p.B, p.B.IP4, Config{}) // its link loses the carrier, for less than its grace
	exchange(t, a, b)
	waits := 0
	for range times {
		p.A.Up(false)
		waits += untilErr(t, a, p.A.Name, rawudp.ErrLinkDown)
		p.A.Up(true)
		waits += untilWorks(t, a)
		exchange(t, a, b)
		exchange(t, b, a)
	}
	if waits > 20*times {
		t.Errorf("Wait returned %d times for %d changes: that is spinning", waits, 2*times)
	}
}

// TestWaitWhileDown: while the link is down Wait sleeps until it is up.
func TestWaitWhileDown(t *testing.T) {
	p := vethtest.New(t, 1500)
	a := listenOn(t, p.A, p.A.IP4, Config{LinkGrace: -1})
	p.A.Up(false)
	untilErr(t, a, p.A.Name, rawudp.ErrLinkDown)
	var waits atomic.Int64
	done := make(chan error, 1)
	go func() {
		var pkts [8]transport.RxPacket
		for {
			err := a.Wait(-1)
			if waits.Add(1); err != nil {
				done <- err
				return
			}
			if _, err := a.RxBurst(pkts[:]); err == nil {
				done <- nil
				return
			}
		}
	}()
	// Other links of the namespace change, which is none of this endpoint's business, and
	// takes long enough to see a Wait that does not sleep.
	for range 20 {
		p.A.Disturb()
	}
	p.A.Up(true)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := waits.Load(); n > 300 {
		t.Errorf("Wait returned %d times while the link was down", n)
	}
}

// TestGrace: within its grace a link that is down only loses packets.
func TestGrace(t *testing.T) {
	p := vethtest.New(t, 1500)
	a := listenOn(t, p.A, p.A.IP4, Config{LinkGrace: time.Hour})
	b := listenOn(t, p.B, p.B.IP4, Config{})
	exchange(t, a, b)
	p.A.Up(false)
	before := a.Stats()
	items := make([]transport.TxItem, 5)
	for i := range items {
		items[i] = transport.TxItem{Dst: b.LocalAddr(), Head: make([]byte, 30)}
	}
	transmit(t, a, items)
	if s := a.Stats(); s.TxDropped != before.TxDropped+5 || s.TxPackets != before.TxPackets {
		t.Errorf("before %+v, after %+v", before, s)
	}
	p.A.Up(true)
	exchange(t, a, b)
}

// TestLinkDeleted deletes the link under load, and makes it again: both endpoints say which link
// is gone, and both work again over the new one, which has other numbers and MAC addresses.
func TestLinkDeleted(t *testing.T) {
	p := vethtest.New(t, 1500)
	a, b := listenOn(t, p.A, p.A.IP4, Config{}), listenOn(t, p.B, p.B.IP4, Config{})
	exchange(t, a, b)
	for range 3 {
		var wg sync.WaitGroup
		var got [2]atomic.Int64
		ends := []struct {
			c, to *Conn
			side  *vethtest.Side
		}{{a, b, p.A}, {b, a, p.B}}
		for i, x := range ends {
			to := x.to.LocalAddr()
			wg.Go(func() {
				x.side.Do(func() { load(t, x.c, to, &got[i], x.side.Name) })
			})
		}
		for got[0].Load() < 1000 || got[1].Load() < 1000 { // under way
			if t.Failed() {
				break
			}
		}
		p.A.Delete()
		wg.Wait()
		if t.Failed() {
			return
		}
		if err := p.Join(); err != nil {
			t.Fatal(err)
		}
		for _, x := range ends {
			x.side.Do(func() {
				untilWorks(t, x.c)
				if n := programs(t, x.side); n != 1 {
					t.Errorf("%d programs on the new link", n)
				}
			})
		}
		exchange(t, a, b)
		exchange(t, b, a)
	}
}

// TestSharedLinkDeleted: when a link comes back all endpoints that shared it move to the new one, and share it.
func TestSharedLinkDeleted(t *testing.T) {
	p := vethtest.New(t, 1500)
	cfg := Config{Endpoints: 2, Ring: 64}
	a := []*Conn{listenOn(t, p.A, p.A.IP4, cfg), listenOn(t, p.A, p.A.IP6, cfg)}
	b := []*Conn{listenOn(t, p.B, p.B.IP4, cfg), listenOn(t, p.B, p.B.IP6, cfg)}
	for range 3 {
		for i := range a {
			exchange(t, a[i], b[i])
			exchange(t, b[i], a[i])
		}
		p.A.Delete()
		for i := range a {
			untilErr(t, a[i], p.A.Name, rawudp.ErrLinkGone)
			untilErr(t, b[i], p.B.Name, rawudp.ErrLinkGone)
		}
		if err := p.Join(); err != nil {
			t.Fatal(err)
		}
		for i := range a {
			p.A.Do(func() { untilWorks(t, a[i]) })
			p.B.Do(func() { untilWorks(t, b[i]) })
		}
		if a[0].dev.hub != a[1].dev.hub || a[0].dev.members != 2 {
			t.Errorf("not shared any more: %d members", a[0].dev.members)
		}
	}
	hubs.Lock()
	defer hubs.Unlock()
	if n := len(hubs.at); n != 2 {
		t.Errorf("%d hubs", n)
	}
}

// load sends and receives until an error, which must name the link.
func load(t *testing.T, c *Conn, to transport.Addr, got *atomic.Int64, link string) {
	items := make([]transport.TxItem, 40)
	for i := range items {
		items[i] = transport.TxItem{Dst: to, Head: make([]byte, 40+i/20)}
	}
	pkts := make([]transport.RxPacket, 64)
	for end := time.Now().Add(patience); ; {
		_, err := c.TxBurst(items)
		if err == nil {
			var n int
			n, err = c.RxBurst(pkts)
			got.Add(int64(n))
		}
		e, ok := errors.AsType[*rawudp.LinkError](err)
		if ok && e.Link == link && e.Err == rawudp.ErrLinkGone {
			return
		}
		if err != nil && (!ok || e.Link != link) || time.Now().After(end) {
			t.Errorf("load on %s ends with %v", link, err)
			got.Add(1 << 40)
			return
		}
	}
}

// TestFlapsUnderLoad takes the link down and up while both ends send and receive all they can: within the
// grace nothing fails, and packets flow again each time.
func TestFlapsUnderLoad(t *testing.T) {
	times := 100
	if testing.Short() {
		times = 10
	}
	p := vethtest.New(t, 1500)
	a, b := listenOn(t, p.A, p.A.IP4, Config{}), listenOn(t, p.B, p.B.IP4, Config{})
	var stop atomic.Bool
	var got [2]atomic.Int64
	var wg sync.WaitGroup
	for i, c := range []*Conn{a, b} {
		to := []*Conn{b, a}[i].LocalAddr()
		wg.Go(func() {
			items := make([]transport.TxItem, 40)
			for k := range items {
				items[k] = transport.TxItem{Dst: to, Head: make([]byte, 40+k/20)}
			}
			pkts := make([]transport.RxPacket, 64)
			for !stop.Load() {
				_, err := c.TxBurst(items)
				n, err2 := c.RxBurst(pkts)
				if err = errors.Join(err, err2); err != nil {
					t.Errorf("within the grace: %v", err)
					return
				}
				got[i].Add(int64(n))
			}
		})
	}
	for range times {
		p.A.Up(false)
		p.A.Up(true)
		before := [2]int64{got[0].Load(), got[1].Load()}
		for end := time.Now().Add(patience); got[0].Load() < before[0]+200 || got[1].Load() < before[1]+200; runtime.Gosched() {
			if t.Failed() || time.Now().After(end) {
				t.Errorf("packets do not flow again")
				stop.Store(true)
				break
			}
		}
		if stop.Load() {
			break
		}
	}
	stop.Store(true)
	wg.Wait()
}
