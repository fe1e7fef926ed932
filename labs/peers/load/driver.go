package load

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/userspace-rpc/erpc/labs/peers/echo"
)

// idlePolls is how many polls that found nothing make a driver let other goroutines run
// and look whether its context has ended: some tens of microseconds.
const idlePolls = 256

// driver is one goroutine that keeps a window of RPCs in flight on a stream. It spins.
type driver struct {
	stream echo.Stream
	slots  []slot
	fixed  []byte // the response, if it is not an echo
	number uint64 // of this driver, shifted into the stamp's upper bits
	seq    uint64
	flying int
	hist   *hdrhistogram.Histogram

	over  *atomic.Bool
	whole bool
	now   time.Time // read at the first response of each poll
	stale bool      // so it is to be read
}

// slot is one RPC of the window. Its id is seq * window + the slot's index.
type slot struct {
	id      uint64
	flies   bool
	request []byte
	begin   time.Time
	hist    *hdrhistogram.Histogram
}

func newDriver(z echo.Sizes, number uint64, s echo.Stream, window int) *driver {
	d := &driver{stream: s, slots: make([]slot, window), number: number << 40, hist: newHistogram()}
	for i := range d.slots {
		d.slots[i].request, d.slots[i].hist = echo.Payload(z.Request), d.hist
	}
	if z.Response != z.Request {
		d.fixed = echo.Payload(z.Response)
	}
	return d
}

// addSlot adds an RPC of so many bytes, with a histogram of its own. It is for echoes.
func (d *driver) addSlot(bytes int) *hdrhistogram.Histogram {
	s := slot{request: echo.Payload(bytes), hist: newHistogram()}
	d.slots = append(d.slots, s)
	return s.hist
}

func (d *driver) latencies() *hdrhistogram.Histogram { return d.hist }

// run implements worker.
func (d *driver) run(ctx context.Context, over *atomic.Bool, whole bool) error {
	d.over, d.whole, d.now = over, whole, time.Now()
	for i := range d.slots {
		d.send(i)
	}
	got := d.got
	for idle := 0; d.flying > 0; {
		d.stale = true
		busy, err := d.stream.Poll(got)
		if err != nil {
			return err
		}
		if busy {
			idle = 0
			continue
		}
		if idle++; idle%idlePolls == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			runtime.Gosched()
		}
	}
	return nil
}

// send starts an RPC in slot i.
func (d *driver) send(i int) {
	s := &d.slots[i]
	d.seq++
	s.id, s.flies, s.begin = d.seq*uint64(len(d.slots))+uint64(i), true, d.now
	echo.Stamp(s.request, d.number|s.id)
	d.stream.Send(s.id, s.request)
	d.flying++
}

// got ends an RPC and starts the next one in its slot.
func (d *driver) got(id uint64, response []byte) error {
	if d.stale {
		d.now, d.stale = time.Now(), false
	}
	i := int(id % uint64(len(d.slots)))
	s := &d.slots[i]
	if !s.flies || s.id != id {
		return fmt.Errorf("response to RPC %d, which is not in flight", id)
	}
	if err := echo.Check(s.request, d.fixed, response, d.whole); err != nil {
		return err
	}
	if err := s.hist.RecordValue(max(1, int64(d.now.Sub(s.begin)))); err != nil {
		return err // longer than a minute
	}
	s.flies = false
	d.flying--
	if !d.over.Load() {
		d.send(i)
	}
	return nil
}
