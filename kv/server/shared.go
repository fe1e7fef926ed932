package server

import (
	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kv/mica"
)

// lock takes the partition, if it is shared.
func (p *part) lock() {
	if p.s.cfg.Shared {
		p.mu.Lock()
	}
}

func (p *part) unlock() {
	if p.s.cfg.Shared {
		p.mu.Unlock()
	}
}

// locked runs fn on the partition in this goroutine.
func (p *part) locked(fn func(*mica.Partition)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return erpc.ErrClosed
	}
	fn(p.store)
	return nil
}

// burst returns a handler that holds the lock while it runs requests.
func (p *part) burst(fn erpc.BatchHandler) erpc.BatchHandler {
	return func(reqs []erpc.ReqHandle) {
		p.mu.Lock()
		defer p.mu.Unlock()
		fn(reqs)
	}
}

// one does the same for one request.
func (p *part) one(fn erpc.Handler) erpc.Handler {
	return func(h erpc.ReqHandle) {
		p.mu.Lock()
		defer p.mu.Unlock()
		fn(h)
	}
}
