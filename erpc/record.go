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

// recordTx keeps datagrams that the transport has taken. Batches with answers have the time just
// before they were offered, not that of the pass: so a handler that takes long is seen. Others
// have that of the pass, which costs no look at the clock.
func (e *engine) recordTx(items []session.Tx) {
	for i := range items {
		t := &items[i]
		e.recorder.Add(flight.Sent, int64(e.leaving), &t.Dst, t.Head, t.Data)
	}
}

// Record makes the loop keep its last n datagrams or some more, up to a million, from its next pass
// on, for Flight. 0 ends that and gives the memory back; it is off at first. Package flight says
// what is kept. It is safe in any goroutine but the loop's. Errors: ErrClosed, or those of a
// context as in Client.Call if the loop does not answer before its end: then nothing has changed.
func (r *Rpc) Record(ctx context.Context, n int) error {
	var ring *flight.Ring
	if n > 0 {
		ring = flight.NewRing(n)
	}
	return r.blockingPost(ctx, func(r *Rpc) { r.engine.recorder = ring })
}

// Recording returns how many datagrams the loop keeps, 0 if it does not record. Safety and errors
// are those of Record.
func (r *Rpc) Recording(ctx context.Context) (n int, err error) {
	err = r.blockingPost(ctx, func(r *Rpc) {
		if r.engine.recorder != nil {
			n = r.engine.recorder.Size()
		}
	})
	return n, err
}

// Flight returns what the loop recorded, nil if it does not record. The loop goes on with an
// empty recorder. Safety and errors are those of Record: a loop that is stuck keeps its record for
// the next call.
func (r *Rpc) Flight(ctx context.Context) (*flight.Dump, error) {
	n, err := r.Recording(ctx) // the next ring is made here, not in the loop
	if n == 0 || err != nil {
		return nil, err
	}
	next := flight.NewRing(n)
	var full *flight.Ring
	var shift int64
	err = r.blockingPost(ctx, func(r *Rpc) {
		if full = r.engine.recorder; full != nil {
			r.engine.recorder = next
		}
		shift = monotime.Wall().UnixNano() - int64(r.clock())
	})
	if full == nil || err != nil {
		return nil, err
	}
	return full.Dump(r.LocalAddr(), r.number, shift), nil
}
