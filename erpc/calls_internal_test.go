package erpc

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

// TestCallTable compares the table with a map: the name of a call fits it until its end and
// nothing after that, and the calls with deadlines are counted.
func TestCallTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table callTable
		live := map[RequestID]monotime.Time{} // its deadline
		var order, over []RequestID
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			if len(order) == 0 || rapid.Bool().Draw(t, "alloc") {
				i := table.alloc()
				c := &table.calls[i]
				if c.used || c.deadline != 0 || c.s != nil || c.done != nil || c.req != nil || c.resp != nil {
					t.Fatalf("a new call is not clean: %+v", c)
				}
				c.used, c.s, c.req, c.resp = true, &Session{}, &MsgBuffer{}, &MsgBuffer{}
				c.done = func(Completion) {}
				if d := rapid.IntRange(0, 2).Draw(t, "deadline"); d > 0 {
					c.deadline = monotime.Time(d)
					table.deadlines++
				}
				id := table.id(i)
				if _, is := live[id]; is {
					t.Fatalf("two calls have the name %x", id)
				}
				live[id], order = c.deadline, append(order, id)
			} else {
				at := rapid.IntRange(0, len(order)-1).Draw(t, "release")
				id := order[at]
				order[at] = order[len(order)-1]
				order = order[:len(order)-1]
				table.release(uint32(id))
				delete(live, id)
				over = append(over, id)
			}
			deadlines := 0
			for id, d := range live {
				if i, ok := table.find(id); !ok || table.id(i) != id || table.calls[i].deadline != d {
					t.Fatalf("call %x is not found", id)
				}
				if d != 0 {
					deadlines++
				}
			}
			for _, id := range over {
				if _, ok := table.find(id); ok {
					t.Fatalf("call %x is found after its end", id)
				}
			}
			for _, i := range table.free {
				if _, ok := table.find(table.id(i)); ok {
					t.Fatalf("call %x is found before it was made", table.id(i))
				}
			}
			if table.deadlines != deadlines || len(table.calls)-len(table.free) != len(live) {
				t.Fatalf("%d deadlines of %d calls, want %d of %d", table.deadlines,
					len(table.calls)-len(table.free), deadlines, len(live))
			}
		}
		for _, id := range []RequestID{1 << 31, 1<<63 | 1, 1<<64 - 1} {
			if _, ok := table.find(id); ok {
				t.Fatalf("call %x is found, but was never made", id)
			}
		}
	})
}

// TestFailedStart: a request that the session refuses leaves nothing in the table, and its buffers
// are the caller's.
func TestFailedStart(t *testing.T) {
	st := newStub(t, Config{MaxQueue: 1})
	s := st.dialTo(1)
	q := func() Request {
		req, err := st.Alloc(10)
		if err != nil {
			t.Fatal(err)
		}
		resp, _ := st.Alloc(10)
		return Request{Req: req, Resp: resp, Timeout: time.Second, Done: func(c Completion) {
			c.Req.Free()
			c.Resp.Free()
		}}
	}
	if _, err := st.EnqueueRequest(s, q()); err != nil {
		t.Fatal(err)
	}
	calls := &st.calls
	for range 3 {
		extra := q()
		if _, err := st.EnqueueRequest(s, extra); err != ErrExhausted {
			t.Fatalf("a request beyond the queue: %v", err)
		}
		extra.Req.Free()
		extra.Resp.Free()
	}
	if calls.deadlines != 1 || len(calls.calls)-len(calls.free) != 1 ||
		len(st.engine.Active()) != 1 {
		t.Errorf("%d deadlines, %d calls, %d sessions active", calls.deadlines,
			len(calls.calls)-len(calls.free), len(st.engine.Active()))
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
	if calls.deadlines != 0 || len(calls.calls) != len(calls.free) ||
		len(st.engine.Active()) != 0 {
		t.Errorf("after the end: %d deadlines, %d calls, %d sessions active", calls.deadlines,
			len(calls.calls)-len(calls.free), len(st.engine.Active()))
	}
}

// TestExpire: each deadline ends its own call, in the first tick that is not before it.
func TestExpire(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		st := newStub(rt, Config{Slots: 2})
		s := st.dialTo(1)
		if rapid.Bool().Draw(rt, "open") {
			st.accepted(s, 1, 3)
		}
		start := st.now
		type call struct{ deadline, ended monotime.Time }
		calls := make([]*call, rapid.IntRange(1, 20).Draw(rt, "calls"))
		for i := range calls {
			c := &call{}
			calls[i] = c
			q := Request{Done: func(e Completion) {
				if e.Err != ErrDeadline || c.ended != 0 {
					rt.Errorf("call %d ended at %v, now with %v", i, c.ended, e.Err)
				}
				c.ended = st.now
				e.Req.Free()
			}}
			q.Req, _ = st.Alloc(10)
			if ms := rapid.IntRange(0, 30).Draw(rt, "timeout"); ms > 0 {
				q.Timeout = time.Duration(ms) * time.Millisecond
				q.Timeout += time.Duration(rapid.IntRange(-1, 1).Draw(rt, "ns"))
				c.deadline = start.Add(q.Timeout)
			} else {
				q.Done = func(e Completion) { e.Req.Free() }
				c.deadline = monotime.Never
			}
			if _, err := st.EnqueueRequest(s, q); err != nil {
				rt.Fatal(err)
			}
		}
		for st.now < start.Add(40*time.Millisecond) {
			step := time.Duration(rapid.IntRange(1, 12).Draw(rt, "step")) * 250 * time.Microsecond
			ticks := st.engine.NextScan() <= st.now.Add(step)
			st.pass(step)
			for i, c := range calls {
				switch {
				case c.ended == st.now && c.ended < c.deadline:
					rt.Fatalf("call %d ended before its deadline", i)
				case c.ended == 0 && ticks && st.now >= c.deadline:
					rt.Fatalf("call %d has not ended %v after its deadline", i, st.now.Sub(c.deadline))
				}
			}
		}
		if err := st.Close(); err != nil {
			rt.Error(err)
		}
	})
}
