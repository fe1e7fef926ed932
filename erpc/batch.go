package erpc

import (
	"github.com/userspace-rpc/erpc/internal/invariants"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// Handlers by the burst.
//
// A request for a batch handler joins the batch of its type when its last packet has come. A batch
// runs when it has MaxBatch requests, when the burst ends, and before packets leave in the middle
// of a burst: its requests count as packets there, since each of them is about to become one. So no
// batch outlives the burst in which its requests came, and their data may stay in the receive ring.
//
// A session keeps one view into that ring, for the request at hand. So a view goes over into the
// batch when its request joins, and the handle says where it is there. Ordinary handlers notice
// nothing of it. Requests without an answer when the handler returns are copied out of the ring.
//
// Much may happen between the time a request joins and the time its batch runs, and all of it
// happens in the loop's thread. A repeat of the request finds the slot at work. A newer request in
// its slot, or a cancellation, marks it as given up: it ends then without its handler. The end of
// its session takes it out of its slot: it is left out.

// MaxBatch is how many requests a batch handler gets at most.
const MaxBatch = 64

// BatchHandler serves requests of one type, one or more that came together, of one or many
// sessions: lookups whose cache misses are to overlap, say. It runs in the Rpc's own thread and
// must not block, and a panic in it is not caught.
//
// The requests are in the order in which they came. Each is answered like that of a Dispatch
// handler: before the handler returns or later, in any order. ReqHandle.Data is in the receive
// buffer until then: call it again instead of keeping the slice. The slice of handles is the
// handler's until it returns: the handler may change it, but not keep it.
//
// A batch takes no request that the client has given up, or whose session has ended. While it runs
// it may end sessions itself: Data is nil from then on, and Respond gives ErrResponded.
type BatchHandler func(reqs []ReqHandle)

// batched is the mode of batch handlers.
const batched = Background + 1

// RegisterBatch names the handler for requests of reqType, 0 to MaxReqType, that it gets by the
// burst: up to MaxBatch at a time, of one or many sessions, with their data still in the receive
// ring. So it can start the memory accesses of all requests before it needs the first one.
//
// A batch ends at MaxBatch requests, at the end of the burst, and before packets leave in the
// middle of the burst. Nothing waits for company. Requests that the handler does not answer before
// it returns are copied out of the ring. Requests of other types that came later may be served
// before. Errors: those of Register.
func (n *Nexus) RegisterBatch(reqType uint8, fn BatchHandler) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.mayRegister(reqType, fn == nil); err != nil {
		return err
	}
	n.handlers[reqType].mode, n.handlers[reqType].batch = batched, uint8(len(n.batches))
	n.batches = append(n.batches, fn)
	return nil
}

// HandleBatch registers a batch handler, which runs inside the event loop as one of HandleInline
// does; see Nexus.RegisterBatch.
func (s *Server) HandleBatch(reqType uint8, fn BatchHandler) error {
	return s.nexus.RegisterBatch(reqType, fn)
}

// batchTable holds the requests that wait for batch handlers.
type batchTable struct {
	list    []batch // one per batch handler
	waiting int     // requests in all of them
	open    []uint8 // those that had requests in this burst, in the order of the first one
}

// batch is the requests that wait for one handler.
type batch struct {
	fn    BatchHandler
	n     int
	open  bool // it is in batchTable.open
	reqs  [MaxBatch]ReqHandle
	views [MaxBatch][]byte    // a request in the receive ring, nil if it lies elsewhere
	given [MaxBatch]ReqHandle // a copy for the handler, which may change it
}

func newBatchTable(fns []BatchHandler) batchTable {
	t := batchTable{list: make([]batch, len(fns)), open: make([]uint8, 0, len(fns))}
	for i, fn := range fns {
		t.list[i].fn = fn
	}
	return t
}

// view returns the data of h in the receive ring, nil if its batch has run.
func (t *batchTable) view(entry *handlerEntry, h ReqHandle) []byte {
	b, i := &t.list[entry.batch], h.place()-1
	if i >= b.n || b.reqs[i] != h {
		return nil
	}
	return b.views[i]
}

// join puts a complete request into the batch of its type.
func (r *Rpc) join(h ReqHandle, at uint8) {
	sv := &h.s.half
	_, _, data := sv.Request(h.slot())
	exposed := h.s.conn.Shared && len(data)+wire.HeaderSize > transport.PrivateBytes
	if (exposed || r.cfg.Experiment.NoZeroCopy) && sv.Unborrow(h.slot()) != nil {
		h.refuse(ReasonExhausted, "no memory for the request")
		return
	}
	t := &r.batches
	b := &t.list[at]
	if !b.open {
		b.open = true
		t.open = append(t.open, at)
	}
	if view, ok := sv.Detach(h.slot()); ok {
		b.views[b.n] = view
		h.bits |= uint64(b.n+1) << placeShift
	}
	b.reqs[b.n] = h
	b.n++
	t.waiting++
	if b.n == MaxBatch {
		r.runBatch(b)
	}
}

// runBatches runs all batches that have requests.
//
//go:noinline
func (r *Rpc) runBatches() {
	t := &r.batches
	for _, at := range t.open { // handlers add none: only packets do
		r.runBatch(&t.list[at])
		t.list[at].open = false
	}
	t.open = t.open[:0]
	r.settle()
}

// runBatch gives the requests of a batch to its handler, and keeps those that it does not answer.
func (r *Rpc) runBatch(b *batch) {
	n := 0
	for _, h := range b.reqs[:b.n] {
		if h.mayRun() {
			b.given[n] = h
			n++
		}
	}
	if n > 0 {
		if r.meter != nil {
			r.meterBatch(b, n)
		} else {
			b.fn(b.given[:n:n])
		}
	}
	for i, h := range b.reqs[:b.n] {
		h.endBatch(b.views[i])
	}
	r.batches.waiting -= b.n
	clear(b.reqs[:b.n]) // they hold sessions, and a receive ring
	clear(b.views[:b.n])
	clear(b.given[:n])
	b.n = 0
}

// mayRun reports whether a request that waited for its batch is to run. If its client gave it up it
// ends here.
func (r ReqHandle) mayRun() bool {
	if !r.s.conn.Open() || !r.s.half.Handling(r.slot(), r.reqNum) {
		return false
	}
	if r.s.half.Cancelled(r.slot(), r.reqNum) {
		r.refuse(ReasonCancelled, "given up before it ran")
		return false
	}
	return true
}

// endBatch copies a request out of the receive ring, where view is, if nobody has answered it.
func (r ReqHandle) endBatch(view []byte) {
	sv := &r.s.half
	if r.s.conn.Open() && sv.Handling(r.slot(), r.reqNum) {
		if r.place() != 0 {
			sv.Attach(r.slot(), view)
		}
		if err := sv.Unborrow(r.slot()); err != nil {
			_ = r.fail(ReasonExhausted, "no memory for the request")
		}
	}
	if invariants.Enabled {
		poison(view)
	}
}

// poison writes over a request that its handler must not read any more, in the receive ring.
func poison(view []byte) {
	for i := range view {
		view[i] = 0xDB
	}
}
