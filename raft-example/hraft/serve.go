package hraft

import (
	"encoding/binary"

	"github.com/hashicorp/raft"
	"github.com/userspace-rpc/erpc/erpc"
)

// incoming is a request for this side's Raft.
type incoming struct {
	typ    uint8
	req    erpc.ReqHandle
	rpc    raft.RPC
	answer chan raft.RPCResponse
	snap   *stream
}

// order puts the requests of a pipeline in order.
type order struct {
	next    uint64
	waiting map[uint64]*incoming
	used    uint64 // for forgetting the oldest
}

// close refuses what waits.
func (o *order) close() {
	for place, in := range o.waiting {
		_ = in.req.RespondBytes(answer(nil, ErrStreamsClosed))
		delete(o.waiting, place)
	}
}

// maxPipelines bounds the pipelines of all peers that are remembered.
const maxPipelines = 256

// maxAhead bounds the requests of a pipeline that wait for an earlier one.
const maxAhead = 512

// respond answers in the loop; safe in any goroutine.
func (t *Transport) respond(req erpc.ReqHandle, b []byte) {
	_ = t.rpc.Post(func(*erpc.Rpc) { _ = req.RespondBytes(b) }) // a closed Rpc has nobody to answer
}

// onRequest handles every request, in the loop: it must not wait.
func (t *Transport) onRequest(req erpc.ReqHandle) {
	data := req.Data()
	switch req.Type() {
	case typeSnapOpen, typeSnapData, typeSnapEnd:
		t.onSnapshot(req, data)
		return
	case typePipeOpen:
		if len(data) == 8 {
			t.openPipeline(binary.LittleEndian.Uint64(data))
			_ = req.RespondBytes(answer(struct{}{}, nil))
			return
		}
	case typePipeline:
		if len(data) < 16 {
			break
		}
		in := t.incoming(req, data[16:], new(raft.AppendEntriesRequest))
		if in != nil {
			t.ordered(binary.LittleEndian.Uint64(data), binary.LittleEndian.Uint64(data[8:]), in)
		}
		return
	case typeAppend:
		t.pass(t.incoming(req, data, new(raft.AppendEntriesRequest)))
		return
	case typeVote:
		t.pass(t.incoming(req, data, new(raft.RequestVoteRequest)))
		return
	case typePreVote:
		t.pass(t.incoming(req, data, new(raft.RequestPreVoteRequest)))
		return
	case typeTimeout:
		t.pass(t.incoming(req, data, new(raft.TimeoutNowRequest)))
		return
	}
	_ = req.RespondBytes(answer(nil, ErrMalformed))
}

// incoming decodes a request; nil if it was refused.
func (t *Transport) incoming(req erpc.ReqHandle, data []byte, args any) *incoming {
	if err := decode(data, args); err != nil {
		_ = req.RespondBytes(answer(nil, err))
		return nil
	}
	in := &incoming{typ: req.Type(), req: req, answer: make(chan raft.RPCResponse, 1)}
	in.rpc = raft.RPC{Command: args, RespChan: in.answer}
	return in
}

// openPipeline makes room for a pipeline. The caller sends nothing on it before the answer.
func (t *Transport) openPipeline(id uint64) {
	if t.pipelines[id] == nil {
		t.pipelines[id] = &order{waiting: map[uint64]*incoming{}}
		t.forget()
	}
}

// ordered passes requests of a pipeline on in their order.
func (t *Transport) ordered(pipeline, place uint64, in *incoming) {
	o := t.pipelines[pipeline]
	if o == nil {
		_ = in.req.RespondBytes(answer(nil, ErrStreamsClosed))
		return
	}
	for _, other := range t.pipelines {
		other.used++
	}
	o.used = 0
	if place < o.next || place >= o.next+maxAhead || o.waiting[place] != nil {
		_ = in.req.RespondBytes(answer(nil, ErrMalformed))
		return
	}
	o.waiting[place] = in
	for in := o.waiting[o.next]; in != nil; in = o.waiting[o.next] {
		delete(o.waiting, o.next)
		o.next++
		t.pass(in)
	}
}

// forget drops the pipeline that was not used for longest, if there are too many.
func (t *Transport) forget() {
	if len(t.pipelines) <= maxPipelines {
		return
	}
	var oldest, used uint64
	for id, o := range t.pipelines {
		if o.used >= used {
			oldest, used = id, o.used
		}
	}
	t.pipelines[oldest].close()
	delete(t.pipelines, oldest)
}

// pass gives a request to Raft, after those before.
func (t *Transport) pass(in *incoming) {
	if in == nil {
		return
	}
	if fn := t.heartbeat.Load(); fn != nil && isHeartbeat(in.rpc.Command) {
		t.wg.Go(func() {
			(*fn)(in.rpc)
			t.await(in)
		})
		return
	}
	select {
	case t.feed <- in:
	default:
		_ = in.req.RespondBytes(answer(nil, erpc.ErrExhausted))
		if in.snap != nil {
			in.snap.end(erpc.ErrExhausted)
		}
	}
}

// isHeartbeat tells a mere heartbeat from other AppendEntries, as raft's own transport does.
func isHeartbeat(command any) bool {
	a, ok := command.(*raft.AppendEntriesRequest)
	return ok && a.Term != 0 && len(a.Addr) > 0 &&
		a.PrevLogEntry == 0 && a.PrevLogTerm == 0 && len(a.Entries) == 0 && a.LeaderCommitIndex == 0
}

// serve feeds Raft in order, until the transport closes.
func (t *Transport) serve() {
	for {
		select {
		case <-t.closing:
			return
		case in := <-t.feed:
			select {
			case <-t.closing:
				return
			case t.consume <- in.rpc:
				t.wg.Go(func() { t.await(in) })
			}
		}
	}
}

// await answers a request when Raft does.
func (t *Transport) await(in *incoming) {
	select {
	case <-t.closing:
		if in.snap != nil {
			in.snap.end(ErrShutdown)
		}
	case r := <-in.answer:
		b := answer(r.Response, r.Error)
		if in.snap != nil {
			in.snap.result(b)
			return
		}
		t.respond(in.req, b)
	}
}
