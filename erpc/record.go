package erpc

import (
	"context"

	"github.com/userspace-rpc/erpc/flight"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
)

// recordRx keeps the datagrams of a burst.
func (e *engine) recordRx(pkts []transport.RxPacket) {
	for i := range pkts {
		e.recorder.Add(flight.Received, int64(e.in.Now), &pkts[i].From, pkts[i].Data, nil)
	}
}

// recordTx keeps datagrams that the transport has taken.
func (e *engine) recordTx(items []session.Tx) {
	for i := range items {
		t := &items[i]
		e.recorder.Add(flight.Sent, int64(e.in.Now), &t.Dst, t.Head, t.Data)
	}
}

// Record makes the loop keep its last n datagrams or some more, up to a million, from its next pass
// on, for Flight. 0 ends that and gives the memory back; it is off at first. Package flight says
// what is kept. It is safe in any goroutine. The error is ErrClosed.
func (r *Rpc) Record(n int) error {
	var ring *flight.Ring
	if n > 0 {
		ring = flight.NewRing(n)
	}
	return r.Post(func(r *Rpc) { r.engine.recorder = ring })
}

// Flight returns what the loop recorded, nil if it does not record. The loop goes on with an
// empty recorder. It is safe in any goroutine but the loop's. Errors: ErrClosed, or those of a
// context as in Client.Call if the loop does not answer before its end: then the record is lost.
func (r *Rpc) Flight(ctx context.Context) (*flight.Dump, error) {
	type taken struct {
		ring  *flight.Ring
		shift int64
	}
	done := make(chan taken, 1)
	size := make(chan int, 1)
	// First how large the next ring is to be: it is made here, not in the loop.
	if err := r.Post(func(r *Rpc) {
		n := 0
		if r.engine.recorder != nil {
			n = r.engine.recorder.Size()
		}
		size <- n
	}); err != nil {
		return nil, err
	}
	select {
	case n := <-size:
		if n == 0 {
			return nil, nil
		}
		next := flight.NewRing(n)
		if err := r.Post(func(r *Rpc) {
			done <- taken{r.engine.recorder, monotime.Wall().UnixNano() - int64(r.clock())}
			if r.engine.recorder != nil {
				r.engine.recorder = next
			}
		}); err != nil {
			return nil, err
		}
	case <-ctx.Done():
		return nil, contextError(ctx)
	}
	select {
	case t := <-done:
		if t.ring == nil {
			return nil, nil
		}
		return t.ring.Dump(r.LocalAddr(), r.number, t.shift), nil
	case <-ctx.Done():
		return nil, contextError(ctx)
	}
}
