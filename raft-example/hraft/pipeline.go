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
	closing  chan struct{}
	closed   sync.Once
	finished sync.WaitGroup
}

// AppendEntriesPipeline implements raft.Transport.
func (t *Transport) AppendEntriesPipeline(_ raft.ServerID, to raft.ServerAddress) (raft.AppendPipeline, error) {
	select {
	case <-t.closing:
		return nil, ErrShutdown
	default:
	}
	n := t.cfg.MaxPipeline
	p := &pipeline{t: t, to: to, id: newNumber(), room: make(chan struct{}, n), waiting: make(chan *future, n), done: make(chan raft.AppendFuture, n), closing: make(chan struct{})}
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

// AppendEntries implements raft.AppendPipeline. It waits while the pipeline is full.
func (p *pipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	f := &future{start: time.Now(), args: args, resp: resp, ended: make(chan struct{})}
	select {
	case <-p.closing:
	case <-p.t.closing:
	case p.room <- struct{}{}:
	}
	select { // once more: of several that are ready, any may be chosen
	case <-p.closing:
		return nil, raft.ErrPipelineShutdown
	case <-p.t.closing:
		return nil, ErrShutdown
	default:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	head := binary.LittleEndian.AppendUint64(nil, p.id)
	head = binary.LittleEndian.AppendUint64(head, p.place)
	b, err := encode(head, args)
	if err != nil {
		<-p.room
		return nil, err
	}
	p.place++
	p.waiting <- f // there is room
	p.t.send(p.to, typePipeline, b, func(answer []byte, err error) {
		if err == nil {
			err = parse(answer, resp)
		}
		f.err = err
		close(f.ended)
	})
	return f, nil
}

// deliver hands futures to the consumer in order, as they end.
func (p *pipeline) deliver() {
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
		<-p.room
		select {
		case <-p.closing:
			return
		case p.done <- f:
		}
	}
}

// Consumer implements raft.AppendPipeline.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.done }

// Close implements raft.AppendPipeline. What is under way ends, unseen.
func (p *pipeline) Close() error {
	p.closed.Do(func() { close(p.closing) })
	p.finished.Wait()
	return nil
}
