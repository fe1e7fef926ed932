package erpc_test

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/msgbuf"
)

// lateRig is a server whose background handlers wait to be told to go on, in goroutines.
type lateRig struct {
	t       *testing.T
	nexus   *erpc.Nexus
	server  *erpc.Rpc
	started chan erpc.ReqHandle
	goOn    chan struct{}
	respond func(erpc.ReqHandle)
	ended   sync.WaitGroup
}

// newLateRig begins n requests of size bytes each, and returns when their handlers run.
func newLateRig(t *testing.T, n, size int, respond func(erpc.ReqHandle)) *lateRig {
	const typ = 1
	l := &lateRig{t: t, started: make(chan erpc.ReqHandle, n), goOn: make(chan struct{}),
		respond: respond}
	l.ended.Add(n)
	var err error
	l.nexus, err = erpc.NewNexus(erpc.Config{MemoryLimit: 64 << 20, Slots: 32, MaxBackground: n + 1,
		Shares: erpc.Shares{Off: true}})
	is(t, "nexus", err, nil)
	is(t, "register", l.nexus.Register(typ, erpc.Background, func(h erpc.ReqHandle) {
		defer l.ended.Done()
		l.started <- h
		<-l.goOn
		if want := pattern(1, size); !bytes.Equal(h.Data(), want) {
			t.Errorf("the request is not what it was")
		}
		l.respond(h)
	}), nil)
	l.server, err = l.nexus.NewRpc(listen(t, "127.0.0.1:0"))
	is(t, "server", err, nil)
	c, err := erpc.NewLoop(listen(t, "127.0.0.1:0"), erpc.Config{})
	is(t, "loop", err, nil)
	t.Cleanup(func() { is(t, "close the client", c.Close(), nil) })
	for range n {
		go func() {
			cl, err := c.Dial(bg, l.server.LocalAddr().String())
			if err == nil {
				_, err = cl.Call(bg, typ, pattern(1, size))
			}
			if err == nil {
				t.Error("a call has an answer, but its endpoint was closed before")
			}
		}()
	}
	is(t, "run", l.server.Run(func() bool { return len(l.started) == n }), nil)
	return l
}

// finish lets the handlers answer, and checks that nothing is left.
func (l *lateRig) finish() {
	if l.nexus.MemoryUsed() == 0 {
		l.t.Error("the memory of requests is gone while their handlers run")
	}
	close(l.goOn)
	l.check()
}

// check waits for the handlers and checks that nothing is left.
func (l *lateRig) check() {
	l.ended.Wait()
	is(l.t, "close the nexus", l.nexus.Close(), nil) // it waits for the workers
	if n := l.nexus.MemoryUsed(); n != 0 {
		l.t.Errorf("%d bytes of memory are left", n)
	}
	if n := l.nexus.Charged(); n != 0 {
		l.t.Errorf("%d bytes are charged", n)
	}
}

// TestCloseWithHandlers: Close while background handlers run is no leak of buffers. Their requests
// stay as they were, and the memory goes with the last answer, whatever it is.
func TestCloseWithHandlers(t *testing.T) {
	const many = 20
	resps := make(chan *erpc.MsgBuffer, many)
	for name, respond := range map[string]func(erpc.ReqHandle){
		"bytes": func(h erpc.ReqHandle) { _ = h.RespondBytes([]byte{1}) },
		"error": func(h erpc.ReqHandle) { _ = h.RespondError(erpc.ErrRequest) },
		"panic": func(erpc.ReqHandle) { panic("as asked") },
		"buffer": func(h erpc.ReqHandle) {
			if err := h.Respond(<-resps); err != nil {
				t.Error(err)
			}
		},
		"freed buffer": func(h erpc.ReqHandle) {
			(<-resps).Free()
			_ = h.RespondError(erpc.ErrRequest)
		},
	} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			l := newLateRig(t, many, 40_000, respond)
			if name == "buffer" || name == "freed buffer" {
				for range many {
					h := <-l.started
					b, err := h.Alloc(3000)
					is(t, "alloc", err, nil)
					resps <- b
				}
			}
			is(t, "close", l.server.Close(), nil)
			l.finish()
		})
	}
}

// TestCloseBesideAnswers: handlers answer while Close is at work, before and behind it.
func TestCloseBesideAnswers(t *testing.T) {
	checkLeaks(t)
	for range 10 {
		l := newLateRig(t, 20, 40_000, func(h erpc.ReqHandle) { _ = h.RespondBytes([]byte{1}) })
		close(l.goOn)
		is(t, "close", l.server.Close(), nil)
		l.check()
	}
}

// TestCloseMissesOwn: while handlers run Close names the buffers that the application has, and they
// stay readable.
func TestCloseMissesOwn(t *testing.T) {
	checkLeaks(t)
	l := newLateRig(t, 3, 40_000, func(h erpc.ReqHandle) { _ = h.RespondBytes(nil) })
	own, err := l.server.Alloc(100)
	is(t, "alloc", err, nil)
	copy(own.Data(), "mine")
	err = l.server.Close()
	var leak *msgbuf.LeakError
	if !errors.Is(err, erpc.ErrBufferLeak) || !errors.As(err, &leak) || leak.Count != 1 {
		t.Errorf("close: %v, want 1 buffer", err)
	}
	if string(own.Data()[:4]) != "mine" {
		t.Error("the buffer is not what it was")
	}
	l.ended.Go(own.Free) // beside the handlers
	l.finish()
}
