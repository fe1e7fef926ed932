package erpc_test

import (
	"slices"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/gid"
	"github.com/userspace-rpc/erpc/wire"
)

// TestBatchSessionEnds: a session ends after its requests joined a batch and before that runs, by
// a word of the client or by a handler. None of them runs; the others do.
func TestBatchSessionEnds(t *testing.T) {
	for _, how := range []string{"disconnect", "close session"} {
		t.Run(how, func(t *testing.T) {
			p := newBatchPair(t, newMemNet(), erpc.Config{Credits: 16}, 2)
			var lost []*batchCall
			for i := range 8 {
				c := p.start(bEcho, i%2, 100)
				if i%2 == 0 {
					lost = append(lost, c)
				}
			}
			p.run(p.client)
			switch how {
			case "disconnect":
				is(t, how, p.client.CloseSession(p.sessions[0]), nil)
			case "close session":
				p.onOne = func(h erpc.ReqHandle) {
					is(t, how, h.Rpc().CloseSession(p.served[0]), nil)
				}
				p.start(bOne, 1, 8)
			}
			p.burst()
			p.wantSizes(4)
			if !slices.Equal(p.ran, []uint32{1, 3, 5, 7}) {
				t.Errorf("%v ran", p.ran)
			}
			p.finish(lost...)
		})
	}
}

// TestBatchEndsASession: a batch handler ends the session of some of its requests.
func TestBatchEndsASession(t *testing.T) {
	p := newBatchPair(t, newMemNet(), erpc.Config{Credits: 16}, 2)
	p.onBatch = func(reqs []erpc.ReqHandle) {
		p.echo(reqs[:2])
		is(t, "close session", reqs[0].Rpc().CloseSession(p.served[0]), nil)
		for i, h := range reqs[2:] {
			if i%2 == 1 {
				p.echo([]erpc.ReqHandle{h})
				continue
			}
			is(t, "respond", h.RespondBytes(nil), erpc.ErrResponded)
			if h.Data() != nil {
				t.Error("a request of an ended session has data")
			}
		}
	}
	var lost []*batchCall
	for i := range 8 {
		if c := p.start(bEcho, i%2, 100); i%2 == 0 {
			lost = append(lost, c)
		}
	}
	p.burst()
	p.wantSizes(8)
	p.finish(lost[1:]...) // the first response had left
}

// TestBatchCancelled: the client gives a request up after it joined a batch. It does not run, and
// its slot serves the next one.
func TestBatchCancelled(t *testing.T) {
	p := newBatchPair(t, newMemNet(), erpc.Config{Slots: 2, Credits: 16}, 1)
	first := p.start(bEcho, 0, 100)
	p.start(bEcho, 0, 100)
	p.run(p.client)
	is(t, "cancel", p.client.Cancel(first.id), nil)
	p.burst()
	p.wantSizes(1)
	if !slices.Equal(p.ran, []uint32{1}) {
		t.Errorf("%v ran", p.ran)
	}
	p.start(bEcho, 0, 8)
	p.start(bEcho, 0, 8)
	p.finish(first)
	if n := p.server.Running(); n != 0 {
		t.Errorf("%d handlers run", n)
	}
}

// TestBatchSuperseded: a newer request comes for the slot of one that waits for its batch: the
// client has given that up, and its word was lost. The older one does not run, the newer one does
// when it comes again.
func TestBatchSuperseded(t *testing.T) {
	p := newBatchPair(t, newMemNet(), erpc.Config{Slots: 1, Credits: 16, NoBundles: true}, 2)
	p.send.lose = func(pkt []byte) bool {
		var h wire.Header
		return h.Parse(pkt) == nil && h.Type == wire.TypeCancel
	}
	older := p.start(bEcho, 0, 100)
	p.start(bEcho, 1, 100)
	p.run(p.client)
	is(t, "cancel", p.client.Cancel(older.id), nil)
	p.sessions[0].UseAgain(1)
	p.start(bEcho, 0, 200)
	p.burst()
	p.wantSizes(1)
	if !slices.Equal(p.ran, []uint32{1}) {
		t.Errorf("%v ran", p.ran)
	}
	p.finish(older)
	if !slices.Equal(p.ran, []uint32{1, 2}) {
		t.Errorf("%v ran in the end", p.ran)
	}
}

// TestBatchPanic: a panic in a batch handler leaves the loop as one in a Dispatch handler does.
func TestBatchPanic(t *testing.T) {
	if !gid.Exact {
		t.Skip("goroutines cannot be told apart on this system")
	}
	for _, typ := range []uint8{bOne, bEcho} {
		p := newBatchPair(t, newMemNet(), erpc.Config{}, 1)
		p.onBatch = func([]erpc.ReqHandle) { panic("as asked") }
		p.onOne = func(erpc.ReqHandle) { panic("as asked") }
		p.start(typ, 0, 8)
		p.run(p.client)
		func() {
			defer func() {
				if r := recover(); r != "as asked" {
					t.Errorf("type %d: the loop let go %v", typ, r)
				}
			}()
			_, _ = p.server.RunOnce()
		}()
		is(t, "the next pass", second(p.server.RunOnce()), erpc.ErrWrongThread)
	}
}

// TestBatchNoMemory: a request that cannot be copied out is answered with an error.
func TestBatchNoMemory(t *testing.T) {
	p := newBatchPair(t, newMemNet(), erpc.Config{MemoryLimit: 6 << 20, MaxMessage: 2 << 20}, 1)
	var hog []*erpc.MsgBuffer
	p.onBatch = func([]erpc.ReqHandle) {
		for n := 1 << 20; n >= 1; n /= 2 {
			for {
				b, err := p.server.Alloc(n)
				if err != nil {
					break
				}
				hog = append(hog, b)
			}
		}
	}
	c := p.start(bEcho, 0, 100)
	p.burst()
	p.until(func() bool { return c.ends > 0 })
	is(t, "a request without memory", c.err, erpc.ErrExhausted, erpc.ErrRemote)
	for _, b := range hog {
		b.Free()
	}
	p.onBatch = nil
	p.start(bEcho, 0, 100)
	p.finish(c)
}

// TestRegisterBatch: bad registrations have names.
func TestRegisterBatch(t *testing.T) {
	n, err := erpc.NewNexus(erpc.Config{})
	is(t, "nexus", err, nil)
	batch, one := func([]erpc.ReqHandle) {}, func(erpc.ReqHandle) {}
	is(t, "a batch handler", n.RegisterBatch(1, batch), nil)
	is(t, "another one for its type", n.RegisterBatch(1, batch), erpc.ErrConfig)
	is(t, "an ordinary one for its type", n.Register(1, erpc.Dispatch, one), erpc.ErrConfig)
	is(t, "an ordinary one", n.Register(2, erpc.Dispatch, one), nil)
	is(t, "a batch handler for its type", n.RegisterBatch(2, batch), erpc.ErrConfig)
	is(t, "nil", n.RegisterBatch(3, nil), erpc.ErrConfig)
	is(t, "a type out of range", n.RegisterBatch(255, batch), erpc.ErrReqType)
	is(t, "its mode for an ordinary one", n.Register(4, erpc.Background+1, one), erpc.ErrConfig)
	is(t, "a server's", erpc.ServerOf(n).HandleBatch(5, batch), nil)
	r, err := n.NewRpc(newMemNet().end(true))
	is(t, "rpc", err, nil)
	is(t, "too late", n.RegisterBatch(6, batch), erpc.ErrConfig)
	is(t, "close", r.Close(), nil)
}
