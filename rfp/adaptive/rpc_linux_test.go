package adaptive

import (
	"errors"
	"fmt"
	"math/bits"
	"path/filepath"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/rfp"
	"github.com/userspace-rpc/erpc/rfp/onesided/shm"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// all is a server that answers by RPCs and by package rfp, and the three ways to it, in one
// goroutine.
type all struct {
	t    *testing.T
	back *erpc.Rpc
	srv  *rfp.Server
	ways []Way
	rpc  *Rpc
}

func must[V any](t *testing.T) func(v V, err error) V {
	return func(v V, err error) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newAll(t *testing.T) *all {
	g := rfp.Geometry{Slots: 8, Request: 256, Response: 256}
	a := &all{t: t}
	path := filepath.Join(t.TempDir(), "s")
	l := must[*shm.Listener](t)(shm.Listen(path, rfp.ServerSpecs(g), rfp.ClientSpecs(g)))
	x := must[*shm.Link](t)(shm.Dial(path, rfp.ClientSpecs(g), rfp.ServerSpecs(g)))
	y := must[*shm.Link](t)(l.Accept())
	_ = l.Close()
	a.srv = must[*rfp.Server](t)(rfp.NewServer(rfp.ServerConfig{Geometry: g, Clock: monotime.Now}))
	a.srv.Handle(1, func(req, resp []byte) ([]byte, error) {
		return fmt.Appendf(resp, "<%s>", req), nil
	})
	if err := a.srv.Serve(y); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.srv.Close)
	c := must[*rfp.Client](t)(rfp.NewClient(x, rfp.Config{Geometry: g, Mode: rfp.Fetch}))
	t.Cleanup(func() { _ = c.Close() })
	n := must[*erpc.Nexus](t)(erpc.NewNexus(erpc.Config{}))
	t.Cleanup(func() { _ = n.Close() })
	if err := n.Register(1, erpc.Dispatch, func(h erpc.ReqHandle) {
		_ = h.RespondBytes(fmt.Appendf(nil, "<%s>", h.Data()))
	}); err != nil {
		t.Fatal(err)
	}
	dial := func() *erpc.Rpc {
		r := must[*erpc.Rpc](t)(n.NewRpc(must[*udp.Conn](t)(udp.Listen("127.0.0.1:0", udp.Config{}))))
		t.Cleanup(func() { _ = r.Close() })
		return r
	}
	front := dial()
	a.back = dial()
	s := must[*erpc.Session](t)(front.CreateSession(a.back.LocalAddr().String()))
	a.rpc = must[*Rpc](t)(NewRpc(front, s, 8, 200, 200))
	t.Cleanup(func() { _ = a.rpc.Close() })
	fetch, reply := Modes(c)
	a.ways = []Way{fetch, reply, a.rpc}
	for !c.Ready() {
		a.step()
	}
	return a
}

// step lets the server and all ways work.
func (a *all) step() {
	if _, err := a.back.RunOnce(); err != nil {
		a.t.Fatal(err)
	}
	a.srv.Poll(8)
	for _, w := range a.ways {
		w.Poll(monotime.Now())
	}
}

// TestWays makes calls by an endpoint over real ways, checks each answer, and holds that each way
// was taken.
func TestWays(t *testing.T) {
	a := newAll(t)
	e := must[*Endpoint](t)(New(1, nil, a.ways...))
	ended, begun := 0, 0
	for ended < 2000 {
		for begun-ended < 4 && begun < 2000 && e.Ready() {
			text := fmt.Sprint("call ", begun)
			q := rfp.Call{Kind: 1, Body: []byte(text)}
			q.Done = func(_ uint64, resp []byte, err error) {
				ended++
				if err != nil || string(resp) != "<"+text+">" {
					t.Errorf("%s: %q, %v", text, resp, err)
				}
			}
			if err := e.Send(&q); err != nil {
				t.Fatal(err)
			}
			begun++
		}
		a.step()
	}
	for i := range a.ways {
		if e.Chooser(1).Mean(i) == 0 {
			t.Errorf("way %d was never taken", i)
		}
	}
}

// TestRpcErrors holds the way of RPCs to the errors of package rfp.
func TestRpcErrors(t *testing.T) {
	a := newAll(t)
	send := func(q rfp.Call) (err error) {
		t.Helper()
		over := false
		q.Done = func(_ uint64, _ []byte, e error) { err, over = e, true }
		if e := a.rpc.Send(&q); e != nil {
			return e
		}
		for !over {
			a.step()
		}
		return err
	}
	if err := send(rfp.Call{Kind: 1, Body: make([]byte, 5000)}); !errors.Is(err, rfp.ErrTooLarge) {
		t.Errorf("a large request: %v", err)
	}
	if err := send(rfp.Call{Kind: 1, Deadline: monotime.Now().Add(-time.Second)}); !errors.Is(err,
		rfp.ErrDeadline) {
		t.Errorf("a deadline that has passed: %v", err)
	}
	if err := send(rfp.Call{Kind: 9}); err == nil {
		t.Error("no handler, and no error")
	}
	if err := send(rfp.Call{Kind: 1, Body: []byte("x")}); err != nil {
		t.Error(err)
	}
	q := rfp.Call{Kind: 1, Done: func(uint64, []byte, error) {}}
	for range 8 {
		if err := a.rpc.Send(&q); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.rpc.Send(&q); !errors.Is(err, rfp.ErrBusy) || a.rpc.Ready() {
		t.Errorf("all busy: %v", err)
	}
	for !a.rpc.Ready() {
		a.step()
	}
	_ = a.rpc.Close()
	if err := a.rpc.Send(&q); !errors.Is(err, rfp.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// TestRpcBounds holds what NewRpc takes, and that a way which is closed or fails keeps no buffers.
func TestRpcBounds(t *testing.T) {
	a := newAll(t)
	for _, c := range [][3]int{{0, 1, 1}, {65, 1, 1}, {1, 0, 1}, {1, 1, 0}} {
		if _, err := NewRpc(nil, nil, c[0], c[1], c[2]); !errors.Is(err, ErrConfig) {
			t.Errorf("%v: %v", c, err)
		}
	}
	for _, c := range [][3]int{{1, 1, 1}, {64, 1, 1}} {
		w, err := NewRpc(a.rpc.rpc, a.rpc.session, c[0], c[1], c[2])
		if err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		if n := bits.OnesCount64(w.free); n != c[0] {
			t.Errorf("%v: room for %d calls", c, n)
		}
		if err := w.Close(); err != nil || w.Ready() {
			t.Errorf("%v: closed: %v", c, err)
		}
	}
	for _, c := range [][3]int{{2, 1 << 30, 1}, {2, 1, 1 << 30}} {
		if _, err := NewRpc(a.rpc.rpc, a.rpc.session, c[0], c[1], c[2]); err == nil {
			t.Errorf("%v: no error", c)
		}
	}
	_ = a.rpc.Close()
	if err := a.rpc.rpc.Close(); err != nil { // it knows of buffers in use
		t.Error(err)
	}
}

// TestRpcPoll holds what Poll returns, and that a way ends with its loop, once.
func TestRpcPoll(t *testing.T) {
	a := newAll(t)
	q := rfp.Call{Kind: 1, Done: func(uint64, []byte, error) {}}
	ended := 0
	for sent := 0; sent < 6 || a.rpc.free != 1<<8-1; {
		if a.rpc.free == 1<<8-1 { // one after the other
			if err := a.rpc.Send(&q); err != nil {
				t.Fatal(err)
			}
			sent++
		}
		if _, err := a.back.RunOnce(); err != nil {
			t.Fatal(err)
		}
		n := a.rpc.Poll(monotime.Now())
		if n < 0 {
			t.Fatalf("Poll returns %d", n)
		}
		ended += n
	}
	if ended != 6 {
		t.Errorf("Poll says that %d calls ended, want 6", ended)
	}
	closed := must[*Rpc](t)(NewRpc(a.rpc.rpc, a.rpc.session, 3, 10, 10))
	_ = closed.Close()
	if err := a.rpc.rpc.Close(); err == nil {
		t.Error("an Rpc closes without a word of the buffers of a way")
	}
	for w, want := range map[*Rpc]error{a.rpc: erpc.ErrClosed, closed: rfp.ErrClosed} {
		w.Poll(monotime.Now())
		if err := w.Send(&q); !errors.Is(err, want) || w.Ready() {
			t.Errorf("after the end of the loop: %v, want %v", err, want)
		}
	}
	a.rpc.free = 0 // its buffers have gone with the Rpc
}
