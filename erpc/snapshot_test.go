package erpc_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/invariants"
)

// snap takes a snapshot of r while both ends are stepped.
func (p *memPair) snap(r *erpc.Rpc) *erpc.Snapshot {
	got := make(chan *erpc.Snapshot)
	go func() {
		got <- r.Snapshot(context.Background(), erpc.SnapshotOptions{Sessions: 8})
	}()
	for {
		select {
		case s := <-got:
			return s
		default:
			p.step()
		}
	}
}

// one returns the statistics of the only type that was counted.
func one(t *testing.T, s *erpc.Snapshot, typ uint8) erpc.TypeStats {
	t.Helper()
	if len(s.Types) != 1 || s.Types[0].Type != typ {
		t.Fatalf("types %+v, want %d alone", s.Types, typ)
	}
	return s.Types[0]
}

// TestSnapshotCounts: from the first snapshot on, both sides count calls, bytes and codes by type.
func TestSnapshotCounts(t *testing.T) {
	w := newStepper(t, erpc.Config{}, 32, 100)
	w.rpc(t)
	for _, r := range []*erpc.Rpc{w.p.client, w.p.server} {
		if s := w.p.snap(r); len(s.Types) != 0 || s.Late || s.Stats.RxPackets == 0 {
			t.Errorf("first snapshot: late %v, %d types, %d packets", s.Late, len(s.Types),
				s.Stats.RxPackets)
		}
	}
	const n = 48
	for range n {
		w.rpc(t)
	}
	c := one(t, w.p.snap(w.p.client), 1)
	if k := c.Client; c.Server != nil || k.Started != n || k.Ended[erpc.CodeOK] != n ||
		k.Count() != n || k.Requests != 32*n || k.Answers != 100*n || k.Latency.Count != n {
		t.Errorf("client: %+v", k)
	}
	s := one(t, w.p.snap(w.p.server), 1)
	if k := s.Server; s.Client != nil || k.Ended[erpc.CodeOK] != n || k.Requests != 32*n ||
		k.Answers != 100*n || k.Latency.Count != n || k.Handler.Count != n {
		t.Errorf("server: %+v", k)
	}
	snap := w.p.snap(w.p.client)
	if len(snap.Sessions) != 1 || !snap.Sessions[0].Client || !snap.Sessions[0].Connected ||
		snap.Sessions[0].RTT == 0 || snap.Sessions[0].MaxCredits == 0 || snap.Memory.Used == 0 {
		t.Errorf("sessions %+v, memory %+v", snap.Sessions, snap.Memory)
	}
	w.req.Free()
	w.resp.Free()
	w.p.close()
}

// TestSnapshotRuns: calls are counted one by one, whatever the types, sizes and latencies of their
// neighbours are, those in the middle of an equal run too.
func TestSnapshotRuns(t *testing.T) {
	p := newMemPair(t, erpc.Config{}, func(n *erpc.Nexus) {
		for typ := range uint8(3) {
			_ = n.Register(typ, erpc.Dispatch, func(h erpc.ReqHandle) {
				_ = h.RespondBytes(h.Data())
			})
		}
	})
	p.snap(p.client)
	p.snap(p.server)
	var calls, bytes [3]uint64
	var latency [3]erpc.Histogram
	busy := 0
	for i := range 300 {
		typ, size := uint8(i/7%3), 1+i%5
		req, _ := p.client.Alloc(size)
		p.tick = erpc.Time(1000 * (1 + i/40)) // latencies change
		began := p.net.now
		_, err := p.client.EnqueueRequest(p.sess, erpc.Request{
			Type: typ, Req: req, Done: func(c erpc.Completion) {
				latency[typ].Add(int64(p.net.now.Sub(began)))
				c.Req.Free()
				c.Resp.Free()
				busy--
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		calls[typ]++
		bytes[typ] += uint64(size)
		if busy++; i%3 == 0 { // some together, some alone
			p.until(func() bool { return busy == 0 })
		}
		if i == 100 {
			p.until(func() bool { return busy == 0 })
			p.snap(p.client) // ends no run
			p.snap(p.server)
		}
	}
	p.until(func() bool { return busy == 0 })
	c, s := p.snap(p.client).Types, p.snap(p.server).Types
	if len(c) != 3 || len(s) != 3 {
		t.Fatalf("%d and %d types", len(c), len(s))
	}
	for typ := range c {
		k, n := c[typ].Client, calls[typ]
		if k.Started != n || k.Ended[erpc.CodeOK] != n || k.Requests != bytes[typ] ||
			k.Answers != bytes[typ] || k.Latency != latency[typ] {
			t.Errorf("client, type %d: %d started, %d ended, %d B, %d B, %d latencies of %d ns; "+
				"want %d of %d B and %d ns", typ, k.Started, k.Ended[erpc.CodeOK], k.Requests,
				k.Answers, k.Latency.Count, k.Latency.Sum, n, bytes[typ], latency[typ].Sum)
		}
		if k := s[typ].Server; k.Ended[erpc.CodeOK] != n || k.Requests != bytes[typ] ||
			k.Answers != bytes[typ] || k.Latency.Count != n {
			t.Errorf("server, type %d: %d ended, %d B, %d B; want %d of %d B", typ,
				k.Ended[erpc.CodeOK], k.Requests, k.Answers, n, bytes[typ])
		}
	}
	p.close()
}

// TestSnapshotBefore: calls under way when counting begins are not counted.
func TestSnapshotBefore(t *testing.T) {
	var held erpc.ReqHandle
	p := newMemPair(t, erpc.Config{}, func(n *erpc.Nexus) {
		_ = n.Register(1, erpc.Dispatch, func(h erpc.ReqHandle) { held = h })
	})
	req, _ := p.client.Alloc(8)
	ended := false
	_, err := p.client.EnqueueRequest(p.sess, erpc.Request{
		Type: 1, Req: req, Done: func(c erpc.Completion) { ended = true; c.Resp.Free() },
	})
	if err != nil {
		t.Fatal(err)
	}
	p.until(func() bool { return held != erpc.ReqHandle{} })
	p.snap(p.client)
	if err := held.RespondBytes([]byte("late")); err != nil {
		t.Fatal(err)
	}
	p.until(func() bool { return ended })
	if s := p.snap(p.client); len(s.Types) != 0 {
		t.Errorf("%+v", s.Types[0].Client.Ended)
	}
	req.Free()
	p.close()
}

// TestSnapshotErrors: errors are counted by their codes, at both sides.
func TestSnapshotErrors(t *testing.T) {
	p := newMemPair(t, erpc.Config{}, func(n *erpc.Nexus) {
		_ = n.Register(7, erpc.Dispatch, func(h erpc.ReqHandle) {
			_ = h.RespondError(&erpc.Error{Code: erpc.CodeNotFound})
		})
	})
	p.snap(p.client)
	p.snap(p.server)
	req, _ := p.client.Alloc(10)
	ended := false
	_, err := p.client.EnqueueRequest(p.sess, erpc.Request{
		Type: 7, Req: req, Done: func(erpc.Completion) { ended = true },
	})
	if err != nil {
		t.Fatal(err)
	}
	p.until(func() bool { return ended })
	if c := one(t, p.snap(p.client), 7).Client; c.Ended[erpc.CodeNotFound] != 1 || c.Count() != 1 {
		t.Errorf("client: %+v", c.Ended)
	}
	if s := one(t, p.snap(p.server), 7).Server; s.Ended[erpc.CodeNotFound] != 1 || s.Count() != 1 {
		t.Errorf("server: %+v", s.Ended)
	}
	// A request that cannot start is not counted as one under way.
	if err := p.client.CloseSession(p.sess); err != nil {
		t.Fatal(err)
	}
	_, err = p.client.EnqueueRequest(p.sess, erpc.Request{
		Type: 7, Req: req, Done: func(erpc.Completion) {}, Trace: new(erpc.CallTrace),
	})
	if c := one(t, p.snap(p.client), 7).Client; err == nil || c.Started != 1 {
		t.Errorf("%v, %d started", err, c.Started)
	}
	req.Free()
	p.close()
}

// TestSnapshotOfStuckLoop: a loop that nobody runs keeps no asker longer than its context, and no
// more than one request; once it runs, snapshots are fresh again.
func TestSnapshotOfStuckLoop(t *testing.T) {
	p := newMemPair(t, erpc.Config{}, nil)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for range 5000 { // more than the ring of commands holds
		if s := p.client.Snapshot(ended, erpc.SnapshotOptions{}); !s.Late {
			t.Fatal("a snapshot of a loop that nobody runs is fresh")
		}
	}
	if s := p.snap(p.client); s.Late || s.Addr != p.client.LocalAddr() {
		t.Errorf("%+v", s)
	}
	client := p.client
	p.close()
	if s := client.Snapshot(context.Background(), erpc.SnapshotOptions{}); s.Late ||
		s.Stats.RxPackets == 0 {
		t.Errorf("after Close: late %v, %d packets", s.Late, s.Stats.RxPackets)
	}
}

// TestNoAllocationsMetered: a loop that is watched allocates nothing either.
func TestNoAllocationsMetered(t *testing.T) {
	if invariants.Enabled {
		t.Skip("assertions allocate")
	}
	w := newStepper(t, erpc.Config{}, 32, 32)
	w.p.snap(w.p.client)
	w.p.snap(w.p.server)
	for range 50 {
		w.rpc(t)
	}
	if n := testing.AllocsPerRun(200, func() { w.rpc(t) }); n != 0 {
		t.Errorf("%v allocations for one RPC", n)
	}
	w.req.Free()
	w.resp.Free()
	w.p.close()
}

// TestCallTrace: the steps of a request are in their order, whatever its size. A request that is
// given up leaves out what did not happen.
func TestCallTrace(t *testing.T) {
	for _, size := range [][2]int{{32, 32}, {32, 50_000}, {50_000, 32}} {
		w := newStepper(t, erpc.Config{}, size[0], size[1])
		var tr erpc.CallTrace
		_, err := w.p.client.EnqueueRequest(w.p.sess, erpc.Request{
			Type: 1, Req: w.req, Resp: w.resp, Done: w.finish, Trace: &tr,
		})
		if err != nil {
			t.Fatal(err)
		}
		w.p.until(func() bool { return w.done == 1 })
		many := size[1] > 10_000
		if !(tr.Enqueued > 0 && tr.Enqueued <= tr.Sent && tr.Sent < tr.Answered &&
			tr.Answered <= tr.Ended) || many != (tr.Answered < tr.Ended) || tr.Unloaded <= 0 ||
			tr.Request != size[0] || tr.Response != size[1] || tr.Code != erpc.CodeOK ||
			tr.Peer != w.p.server.LocalAddr() || tr.WallClock.IsZero() {
			t.Errorf("%v: %+v", size, tr)
		}
		if at := tr.Wall(tr.Sent); tr.WallClock.Sub(at) != tr.Ended.Sub(tr.Sent) ||
			!tr.Wall(tr.Called).IsZero() {
			t.Errorf("%v: sent at %v, ended at %v", size, at, tr.WallClock)
		}
		w.req.Free()
		w.resp.Free()
		w.p.close()
	}
	p := newMemPair(t, erpc.Config{}, func(n *erpc.Nexus) {
		_ = n.Register(1, erpc.Dispatch, func(erpc.ReqHandle) {})
	})
	req, _ := p.client.Alloc(8)
	var tr erpc.CallTrace
	var failed error
	id, err := p.client.EnqueueRequest(p.sess, erpc.Request{
		Type: 1, Req: req, Trace: &tr, Done: func(c erpc.Completion) { failed = c.Err },
	})
	if err == nil {
		err = p.client.Cancel(id)
	}
	if err != nil || !errors.Is(failed, erpc.ErrCancelled) || tr.Sent == 0 || tr.Answered != 0 ||
		tr.Ended == 0 || tr.Code != erpc.CodeCancelled {
		t.Errorf("%v, %v: %+v", err, failed, tr)
	}
	req.Free()
	p.close()
}

// TestClientCallTrace: a Client's call fills in the trace of its context. Times are those of
// passes, and the pass that sends may find the answer. A call may come in the middle of a pass.
func TestClientCallTrace(t *testing.T) {
	_, c := pair(t, erpc.Config{})
	var tr erpc.CallTrace
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	const calls = 5000
	for range calls {
		if _, err := c.Call(erpc.WithCallTrace(ctx, &tr), 1, []byte("hello")); err != nil {
			t.Fatal(err)
		}
		if !(0 < tr.Called && tr.Called <= tr.Enqueued && tr.Enqueued <= tr.Sent &&
			tr.Sent <= tr.Ended) || tr.Request != 5 || tr.Response != 5 {
			t.Fatalf("%+v", tr)
		}
	}
	snaps := erpc.Snapshots(ctx, erpc.SnapshotOptions{}, c, c)
	if len(snaps) != 1 || one(t, snaps[0], 1).Client.Started != calls {
		t.Errorf("%d snapshots", len(snaps))
	}
}
