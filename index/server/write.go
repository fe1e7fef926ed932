package server

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/index/durable"
	"github.com/userspace-rpc/erpc/index/message"
)

// writes does the PUTs and DELETEs of a map.
type writes[V uint64 | []byte] struct {
	m interface {
		Put(key []byte, value V) (old V, replaced bool, err error)
		PutIfAbsent(key []byte, value V) (there V, present bool, err error)
		Delete(key []byte) (old V, deleted bool)
	}
	log     *durable.Store[V] // nil: there is none
	memory  *Memory           // nil: there is no limit
	parse   func(req []byte) (key []byte, value V, err error)
	give    func(h erpc.ReqHandle, old V, there bool)
	changes atomic.Uint64
}

// handler returns the handler of a kind of write.
func (w *writes[V]) handler(op durable.Op) erpc.Handler {
	return func(h erpc.ReqHandle) { w.serve(op, h) }
}

func (w *writes[V]) serve(op durable.Op, h erpc.ReqHandle) {
	if w.log != nil && !w.log.Ready() {
		w.later(op, h)
		return
	}
	old, there, at, err := w.do(op, h.Data())
	switch {
	case err != nil:
		refuse(h, err)
	case w.log != nil && !w.log.Kept(at):
		w.answer(h, old, there, at)
	default:
		w.give(h, old, there)
	}
}

// do does what a request asks for.
func (w *writes[V]) do(op durable.Op, req []byte) (old V, there bool, at durable.Mark, err error) {
	var key []byte
	var value V
	if op == durable.Delete {
		key, err = message.ParseKey(req)
	} else {
		key, value, err = w.parse(req)
		if err == nil && w.memory.full() {
			err = message.ErrFull
		}
	}
	switch {
	case err != nil:
		return old, false, 0, err
	case w.log != nil:
		old, there, at, err = w.log.Try(op, key, value)
	case op == durable.Put:
		old, there, err = w.m.Put(key, value)
	case op == durable.PutIfAbsent:
		old, there, err = w.m.PutIfAbsent(key, value)
	default:
		old, there = w.m.Delete(key)
	}
	w.changes.Add(1)
	w.memory.changed(len(req))
	return old, there, at, err
}

// later serves a request when the log is ready, in the loop that it came to.
func (w *writes[V]) later(op durable.Op, h erpc.ReqHandle) {
	loop := h.Rpc()
	w.log.WhenReady(func() {
		_ = loop.Post(func(*erpc.Rpc) { w.serve(op, h) }) // the loop may have ended
	})
}

// answer answers a request when the log has it.
func (w *writes[V]) answer(h erpc.ReqHandle, old V, there bool, at durable.Mark) {
	loop := h.Rpc()
	w.log.WhenKept(at, func(err error) {
		_ = loop.Post(func(*erpc.Rpc) { // the loop may have ended
			if err != nil {
				refuse(h, err)
			} else {
				w.give(h, old, there)
			}
		})
	})
}

// refuse tells a client why its request was not done.
func refuse(h erpc.ReqHandle, err error) {
	_ = h.RespondError(fault(err)) // the session may have ended
}

// fault gives an error the code with which it travels.
func fault(err error) error {
	code := erpc.CodeInvalidArgument
	switch {
	case errors.Is(err, message.ErrFull), errors.Is(err, durable.ErrBehind):
		code = erpc.CodeResourceExhausted
	case errors.Is(err, durable.ErrFailed), errors.Is(err, durable.ErrClosed):
		code = erpc.CodeFailedPrecondition
		err = fmt.Errorf("%w: %w", message.ErrReadOnly, err)
	}
	return &erpc.Error{Code: code, Text: err.Error()}
}
