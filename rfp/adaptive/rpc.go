package adaptive

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/rfp"
)

// maxCalls bounds the calls of an Rpc under way.
const maxCalls = 64

// Rpc is the way of RPCs: calls of one session of an erpc.Rpc. Request types are the same there.
// Done gets rfp.ErrDeadline for a deadline, and else what package erpc says.
type Rpc struct {
	rpc     *erpc.Rpc
	session *erpc.Session
	calls   [maxCalls]rpcCall
	free    uint64
	ended   int
	err     error
	done    erpc.Continuation
}

type rpcCall struct {
	req, resp *erpc.MsgBuffer
	tag       uint64
	done      func(tag uint64, resp []byte, err error)
}

// NewRpc returns a way of at most so many calls under way, 1 to 64, whose requests and responses
// have at most so many bytes. It belongs to the loop of the Rpc, which Poll runs once, and its
// buffers are the Rpc's: Close it first. Errors: ErrConfig, those of Alloc.
func NewRpc(r *erpc.Rpc, s *erpc.Session, calls, request, response int) (*Rpc, error) {
	if calls < 1 || calls > maxCalls || request < 1 || response < 1 {
		return nil, fmt.Errorf("%w: %d calls of %d and %d bytes", ErrConfig, calls, request, response)
	}
	w := &Rpc{rpc: r, session: s}
	w.done = w.ends
	for i := range calls {
		c := &w.calls[i]
		var err error
		if c.req, err = r.Alloc(request); err == nil {
			c.resp, err = r.Alloc(response)
		}
		if err != nil {
			if c.req != nil {
				c.req.Free()
			}
			return nil, errors.Join(err, w.Close())
		}
		w.free |= 1 << i
	}
	return w, nil
}

// Close frees the buffers of calls that are not under way. The way takes no more calls.
func (w *Rpc) Close() error {
	w.err = rfp.ErrClosed
	for ; w.free != 0; w.free &= w.free - 1 {
		w.drop(bits.TrailingZeros64(w.free))
	}
	return nil
}

func (w *Rpc) drop(i int) {
	w.calls[i].req.Free()
	w.calls[i].resp.Free()
}

// Ready reports whether a call is taken now.
func (w *Rpc) Ready() bool { return w.free != 0 && w.err == nil }

// Send takes a call. Errors, without a call of Done: rfp.ErrBusy, rfp.ErrTooLarge, rfp.ErrClosed,
// rfp.ErrDeadline, those of EnqueueRequest.
func (w *Rpc) Send(q *rfp.Call) error {
	switch {
	case w.err != nil:
		return w.err
	case w.free == 0:
		return rfp.ErrBusy
	}
	i := bits.TrailingZeros64(w.free)
	c := &w.calls[i]
	if len(q.Body) > c.req.MaxSize() {
		return fmt.Errorf("%w: a request of %d bytes", rfp.ErrTooLarge, len(q.Body))
	}
	out := erpc.Request{Type: q.Kind, Req: c.req, Resp: c.resp, Tag: uint64(i), Done: w.done}
	if q.Deadline != 0 {
		if out.Timeout = q.Deadline.Sub(monotime.Now()); out.Timeout <= 0 {
			return rfp.ErrDeadline
		}
	}
	if err := c.req.Resize(len(q.Body)); err != nil {
		return err
	}
	copy(c.req.Data(), q.Body)
	c.tag, c.done = q.Tag, q.Done
	if _, err := w.rpc.EnqueueRequest(w.session, out); err != nil {
		return err
	}
	w.free &^= 1 << i
	return nil
}

// ends is the end of an RPC.
func (w *Rpc) ends(d erpc.Completion) {
	i := int(d.Tag)
	c := &w.calls[i]
	w.ended++
	var resp []byte
	err := d.Err
	switch {
	case err == nil:
		resp = d.Resp.Data()
	case errors.Is(err, erpc.ErrDeadline):
		err = rfp.ErrDeadline
	}
	c.done(c.tag, resp, err)
	if w.err != nil {
		w.drop(i)
		return
	}
	w.free |= 1 << i
}

// Poll runs the loop once and returns how many calls have ended.
func (w *Rpc) Poll(rfp.Time) int {
	before := w.ended
	if _, err := w.rpc.RunOnce(); err != nil && w.err == nil {
		w.err = err
	}
	return w.ended - before
}
