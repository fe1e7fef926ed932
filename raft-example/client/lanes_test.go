package client

import (
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/raft-example/kv"
)

// lanesRig is a client that knows no server. So its requests stay where they are until the test
// answers them.
type lanesRig struct {
	*Client
	t    *testing.T
	now  monotime.Time
	ends map[string]error // of the requests that have ended, by their keys
}

func newLanes(t *testing.T, sessions int) *lanesRig {
	g := &lanesRig{t: t, now: monotime.Time(time.Hour), ends: map[string]error{}}
	g.Client = &Client{cfg: Config{Sessions: sessions, Attempt: time.Second, Backoff: time.Millisecond,
		Clock: func() monotime.Time { return g.now }}}
	g.members.next = monotime.Never
	return g
}

// put begins a write, for which then is called when it has ended, if it is not nil.
func (g *lanesRig) put(key string, timeout time.Duration, then func()) {
	k, _ := kv.MakeKey(key)
	g.Do(kv.Command{Op: kv.Put, Key: k}, g.now.Add(timeout), func(r Result) {
		g.ends[key] = r.Err
		if then != nil {
			then()
		}
	})
}

// find returns the number of a write under way.
func (g *lanesRig) find(key string) uint32 {
	g.t.Helper()
	i := slices.IndexFunc(g.calls, func(k call) bool {
		return k.done != nil && k.cmd.Key.String() == key
	})
	if i < 0 {
		g.t.Fatal(key, "is not under way")
	}
	return uint32(i)
}

// answer gives a write an answer, in the place of its attempt that is to be repeated.
func (g *lanesRig) answer(key string, a kv.Answer) {
	g.t.Helper()
	i := g.find(key)
	if g.calls[i].lane == nil {
		g.t.Fatal(key, "waits for a lane")
	}
	g.later = slices.DeleteFunc(g.later, func(j uint32) bool { return i == j })
	g.answered(i, &g.calls[i], a)
}

// open gives a write the session that it asked for.
func (g *lanesRig) open(key string) {
	g.t.Helper()
	g.answer(key, kv.Answer{Status: kv.OK, Number: 7})
}

// waits checks which writes wait for a lane, in this order.
func (g *lanesRig) waits(want ...string) {
	g.t.Helper()
	var got []string
	for _, i := range g.lanes.waiting {
		got = append(got, g.calls[i].cmd.Key.String())
	}
	if !slices.Equal(got, want) {
		g.t.Errorf("%v wait, want %v", got, want)
	}
}

// TestFullStore: writes for which the store has no session wait for those of others, and the last
// lane goes on asking. After a while new writes ask too.
func TestFullStore(t *testing.T) {
	full := kv.Answer{Status: kv.Full}
	g := newLanes(t, 3)
	for _, key := range []string{"a", "b", "c", "d"} {
		g.put(key, time.Minute, nil)
	}
	g.waits("d")
	g.answer("a", full)
	g.answer("b", full)
	g.waits("d", "a", "b")
	g.answer("c", full)
	g.answer("c", full)
	g.waits("d", "a", "b")
	g.open("c")
	g.now = g.now.Add(time.Second - 1)
	g.put("e", time.Minute, nil)
	g.waits("d", "a", "b", "e")
	g.now++
	g.put("f", time.Minute, nil)
	g.waits("b", "e", "f") // two lanes more
	g.answer("c", full)    // no answer to a write: it is repeated
	g.waits("b", "e", "f")
	g.answer("c", kv.Answer{Status: kv.OK})
	g.waits("e", "f")
	if err, ended := g.ends["c"]; !ended || err != nil || len(g.ends) > 1 {
		t.Error(g.ends)
	}
}

// TestFullAndLost: the only session is lost while the store has no other one. A write that waits
// asks for one all the same: nobody else does.
func TestFullAndLost(t *testing.T) {
	g := newLanes(t, 3)
	g.put("a", time.Minute, nil)
	g.open("a")
	g.put("b", time.Minute, nil)
	g.answer("b", kv.Answer{Status: kv.Full})
	g.waits("b")
	g.answer("a", kv.Answer{Status: kv.Retry}) // it may be applied
	g.answer("a", kv.Answer{Status: kv.Expired})
	g.waits()
	if !errors.Is(g.ends["a"], ErrUnknown) {
		t.Error(g.ends["a"])
	}
	g.open("b")
	g.answer("b", kv.Answer{Status: kv.OK})
	if err, ended := g.ends["b"]; !ended || err != nil {
		t.Error(g.ends)
	}
}

// TestFullWhenClosed: an answer that comes after Close lets nothing wait.
func TestFullWhenClosed(t *testing.T) {
	g := newLanes(t, 2)
	g.put("a", time.Minute, nil)
	g.put("b", time.Minute, nil)
	g.later = nil // they are under way
	g.Close()
	g.answer("a", kv.Answer{Status: kv.Full})
	g.waits()
	if !errors.Is(g.ends["a"], ErrClosed) || len(g.ends) != 1 {
		t.Error(g.ends)
	}
}

// TestWritesInTurn: a write that is begun when another one ends does not overtake those that wait.
func TestWritesInTurn(t *testing.T) {
	g := newLanes(t, 1)
	g.put("a", time.Minute, func() { g.put("c", time.Minute, nil) })
	g.put("b", time.Minute, nil)
	g.open("a")
	g.answer("a", kv.Answer{Status: kv.OK})
	g.waits("c")
	g.answer("b", kv.Answer{Status: kv.OK})
	g.waits()
}

// TestLateWrites: the client wants to be called when the first deadline of those that wait comes,
// and not again before the next.
func TestLateWrites(t *testing.T) {
	g := newLanes(t, 1)
	g.put("a", time.Minute, nil)
	g.later = nil // it is under way
	g.put("b", 2*time.Second, nil)
	g.put("c", time.Second, nil)
	g.put("d", 3*time.Second, nil)
	for _, key := range []string{"c", "b", "d"} {
		wake := g.NextWake()
		if g.Poll(); g.ends[key] != nil {
			t.Errorf("%s has ended early: %v", key, g.ends[key])
		}
		if wake <= g.now {
			t.Fatal("the client is to be called at once, for nothing")
		}
		g.now = wake
		if g.Poll(); !errors.Is(g.ends[key], ErrDeadline) || !errors.Is(g.ends[key], ErrSessions) {
			t.Errorf("%s has not ended: %v", key, g.ends[key])
		}
	}
	if wake := g.NextWake(); wake != monotime.Never {
		t.Error("nothing waits, and the client is to be called at", wake)
	}
}

// TestLateInARow: writes that are late when they get a lane end one after the other, not one within
// the other.
func TestLateInARow(t *testing.T) {
	g := newLanes(t, 1)
	var depths []int
	depth := func() { depths = append(depths, runtime.Callers(0, make([]uintptr, 1000))) }
	g.put("a", time.Minute, nil)
	for _, key := range []string{"b", "c", "d", "e"} {
		g.put(key, time.Second, depth)
	}
	g.open("a")
	g.now = g.now.Add(time.Second)
	g.answer("a", kv.Answer{Status: kv.OK})
	if len(depths) != 4 || slices.Max(depths) > slices.Min(depths) {
		t.Errorf("depths of the stack: %v", depths)
	}
}
