package hraft

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// pipeline implements raft.AppendPipeline.
type pipeline struct {
	t        *Transport
	to       raft.ServerAddress
	id       uint64
	mu       sync.Mutex // AppendEntries gives out places in the order of its calls
	place    uint64
	room     chan struct{}
	waiting  chan *future
	done     chan raft.AppendFuture
	over     chan struct{} // an answer was no success: nobody consumes any more
	closing  chan struct{}
	closed   sync.Once
	finished sync.WaitGroup
}

// AppendEntriesPipeline implements raft.Transport. The error is
// raft.ErrPipelineReplicationNotSupported if Config.MaxRPCsInFlight is 1. The peer is asked
// first, so there is no pipeline to one that does not answer.
func (t *Transport) AppendEntriesPipeline(server raft.ServerID,
	to raft.ServerAddress) (raft.AppendPipeline, error) {
	select {
	case <-t.closing:
		return nil, ErrShutdown
	default:
	}
	n := t.cfg.MaxRPCsInFlight
	if n < 2 {
		return nil, raft.ErrPipelineReplicationNotSupported
	}
	p := &pipeline{t: t, to: t.address(server, to), id: newNumber(), room: make(chan struct{}, n-1),
		waiting: make(chan *future, n), done: make(chan raft.AppendFuture), over: make(chan struct{}),
		closing: make(chan struct{})}
	id := binary.LittleEndian.AppendUint64(nil, p.id)
	if err := t.roundTrip(p.to, typePipeOpen, id, t.cfg.Timeout, new(struct{})); err != nil {
		return nil, err
	}
	p.finished.Go(p.deliver)
	return p, nil
}

// future implements raft.AppendFuture.
type future struct {
	start time.Time
	args  *raft.AppendEntriesRequest
	resp  *raft.AppendEntriesResponse
	ended chan struct{}
	err   error // once ended
}

// Error implements raft.Future.
func (f *future) Error() error {
	<-f.ended
	return f.err
}

// Start implements raft.AppendFuture.
func (f *future) Start() time.Time { return f.start }

// Request implements raft.AppendFuture.
func (f *future) Request() *raft.AppendEntriesRequest { return f.args }

// Response implements raft.AppendFuture.
func (f *future) Response() *raft.AppendEntriesResponse { return f.resp }

// AppendEntries implements raft.AppendPipeline. A request that fills the pipeline is sent too,
// and AppendEntries then waits until Raft takes another request's answer from Consumer. After an
// answer that is no success it returns raft.ErrPipelineShutdown at once: Raft takes no more answers
// then, so there would never be room.
func (p *pipeline) AppendEntries(args *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	f := &future{start: time.Now(), args: args, resp: resp, ended: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.closing:
		return nil, raft.ErrPipelineShutdown
	case <-p.t.closing:
		return nil, ErrShutdown
	case <-p.over:
		return nil, raft.ErrPipelineShutdown
	default:
	}
	head := binary.LittleEndian.AppendUint64(nil, p.id)
	head = binary.LittleEndian.AppendUint64(head, p.place)
	b, err := encode(head, args)
	if err != nil {
		return nil, err
	}
	p.place++
	p.waiting <- f // there is room: all before this one but room's are delivered
	p.t.send(p.to, typePipeline, b, p.t.cfg.Timeout, func(answer []byte, err error) {
		if err == nil {
			err = parse(answer, resp)
		}
		f.err = err
		close(f.ended)
	})
	select {
	case <-p.closing:
		return nil, raft.ErrPipelineShutdown
	case <-p.t.closing:
		return nil, ErrShutdown
	case <-p.over:
		return nil, raft.ErrPipelineShutdown
	case p.room <- struct{}{}:
		return f, nil
	}
}

// deliver hands futures to the consumer in order, as they end.
func (p *pipeline) deliver() {
	over := false
	for {
		var f *future
		select {
		case <-p.closing:
			return
		case f = <-p.waiting:
		}
		select {
		case <-p.closing:
			return
		case <-f.ended:
		}
		select {
		case <-p.closing:
			return
		case p.done <- f:
		}
		if !over && (f.err != nil || !f.resp.Success) {
			over = true
			close(p.over)
		}
		select {
		case <-p.closing:
			return
		case <-p.room:
		}
	}
}

// Consumer implements raft.AppendPipeline.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.done }

// Close implements raft.AppendPipeline. Calls under way end, unseen.
func (p *pipeline) Close() error {
	p.closed.Do(func() { close(p.closing) })
	p.finished.Wait()
	return nil
}
