package rawtest

import (
	"errors"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/rawudp"
	"github.com/userspace-rpc/erpc/transport/rawudp/vethtest"
)

// Device describes a frame device to TestLinks.
type Device struct {
	// Listen opens an endpoint that is closed when the test ends. grace is its LinkGrace.
	Listen func(t *testing.T, s *vethtest.Side, ip netip.Addr, grace time.Duration) transport.Transport
	// Moved checks an endpoint that works on a new link, inside its namespace.
	Moved func(t *testing.T, s *vethtest.Side, c transport.Transport)
}

// TestLinks takes links away from endpoints, and gives them back.
func TestLinks(t *testing.T, d *Device) {
	t.Run("Flaps", d.flaps)
	t.Run("WaitWhileDown", d.waitWhileDown)
	t.Run("Grace", d.grace)
	t.Run("Deleted", d.deleted)
	t.Run("FlapsUnderLoad", d.flapsUnderLoad)
}

// UntilErr waits until both bursts of c return an error, and checks that it names the link.
// It returns how often Wait returned.
func UntilErr(t *testing.T, c transport.Transport, link string, why error) (waits int) {
	t.Helper()
	var pkts [8]transport.RxPacket
	for end := time.Now().Add(Patience); ; waits++ {
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
		if err := c.Wait(Patience); err != nil {
			t.Fatal(err)
		}
	}
}

// UntilWorks waits until RxBurst of c works again. It returns how often Wait returned.
func UntilWorks(t *testing.T, c transport.Transport) (waits int) {
	t.Helper()
	var pkts [8]transport.RxPacket
	for end := time.Now().Add(Patience); ; waits++ {
		_, err := c.RxBurst(pkts[:])
		if err == nil {
			return waits
		}
		if time.Now().After(end) {
			t.Fatalf("the link is back, but %v", err)
		}
		if err := c.Wait(Patience); err != nil {
			t.Fatal(err)
		}
	}
}

// flaps takes the link down and up many times: the endpoint says so with an error that
// names the link, sleeps meanwhile, and works again when it is back.
func (d *Device) flaps(t *testing.T) {
	times := 100
	if testing.Short() {
		times = 10
	}
	p := vethtest.New(t, 1500)
	a := d.Listen(t, p.A, p.A.IP4, -1)
	b := d.Listen(t, p.B, p.B.IP4, 0) // its link loses the carrier, for less than its grace
	Exchange(t, a, b)
	waits := 0
	for range times {
		p.A.Up(false)
		waits += UntilErr(t, a, p.A.Name, rawudp.ErrLinkDown)
		p.A.Up(true)
		waits += UntilWorks(t, a)
		Exchange(t, a, b)
		Exchange(t, b, a)
	}
	if waits > 20*times {
		t.Errorf("Wait returned %d times for %d changes: that is spinning", waits, 2*times)
	}
}

// waitWhileDown: while the link is down Wait sleeps until it is up.
func (d *Device) waitWhileDown(t *testing.T) {
	p := vethtest.New(t, 1500)
	a := d.Listen(t, p.A, p.A.IP4, -1)
	p.A.Up(false)
	UntilErr(t, a, p.A.Name, rawudp.ErrLinkDown)
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

// grace: within its grace a link that is down only loses packets.
func (d *Device) grace(t *testing.T) {
	p := vethtest.New(t, 1500)
	a := d.Listen(t, p.A, p.A.IP4, time.Hour)
	b := d.Listen(t, p.B, p.B.IP4, 0)
	Exchange(t, a, b)
	p.A.Up(false)
	before := a.Stats()
	items := make([]transport.TxItem, 5)
	for i := range items {
		items[i] = transport.TxItem{Dst: b.LocalAddr(), Head: make([]byte, 30)}
	}
	Transmit(t, a, items)
	if s := a.Stats(); s.TxDropped != before.TxDropped+5 || s.TxPackets != before.TxPackets {
		t.Errorf("before %+v, after %+v", before, s)
	}
	p.A.Up(true)
	Exchange(t, a, b)
}

// deleted deletes the link under load, and makes it again: both endpoints say which link
// is gone, and both work again over the new one, which has other numbers and MAC addresses.
func (d *Device) deleted(t *testing.T) {
	p := vethtest.New(t, 1500)
	a, b := d.Listen(t, p.A, p.A.IP4, 0), d.Listen(t, p.B, p.B.IP4, 0)
	Exchange(t, a, b)
	for range 3 {
		var wg sync.WaitGroup
		var got [2]atomic.Int64
		ends := []struct {
			c, to transport.Transport
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
				UntilWorks(t, x.c)
				d.Moved(t, x.side, x.c)
			})
		}
		Exchange(t, a, b)
		Exchange(t, b, a)
	}
}

// load sends and receives until an error, which must name the link.
func load(t *testing.T, c transport.Transport, to transport.Addr, got *atomic.Int64, link string) {
	items := make([]transport.TxItem, 40)
	for i := range items {
		items[i] = transport.TxItem{Dst: to, Head: make([]byte, 40+i/20)}
	}
	pkts := make([]transport.RxPacket, 64)
	for end := time.Now().Add(Patience); ; {
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

// flapsUnderLoad takes the link down and up while both ends send and receive all they can: within
// the grace nothing fails, and packets flow again each time.
func (d *Device) flapsUnderLoad(t *testing.T) {
	times := 100
	if testing.Short() {
		times = 10
	}
	p := vethtest.New(t, 1500)
	a, b := d.Listen(t, p.A, p.A.IP4, 0), d.Listen(t, p.B, p.B.IP4, 0)
	var stop atomic.Bool
	var got [2]atomic.Int64
	var wg sync.WaitGroup
	for i, c := range []transport.Transport{a, b} {
		to := []transport.Transport{b, a}[i].LocalAddr()
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
				runtime.Gosched() // the other side may wait for this processor after each of its calls
			}
		})
	}
	for range times {
		p.A.Up(false)
		p.A.Up(true)
		before := [2]int64{got[0].Load(), got[1].Load()}
		for end := time.Now().Add(Patience); got[0].Load() < before[0]+200 ||
			got[1].Load() < before[1]+200; runtime.Gosched() {
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
