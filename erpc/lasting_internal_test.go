package erpc

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestFreshCalls: a caller is told that its call lasts in the second epoch after it began, once,
// unless the call has ended before.
func TestFreshCalls(t *testing.T) {
	st := newStub(t, Config{})
	c := &Client{rpc: st.Rpc}
	var f freshCalls
	var young, old []*goCall
	rng := rand.New(rand.NewPCG(1, 2))
	told := 0
	for range 1000 {
		for range rng.IntN(5) {
			k := &goCall{client: c, typ: uint8(rng.IntN(3)), ended: make(chan bool, 2)}
			f.add(k)
			young = append(young, k)
		}
		for _, list := range []*[]*goCall{&young, &old} {
			if n := len(*list); n > 0 && rng.IntN(2) == 0 {
				i := rng.IntN(n)
				k := (*list)[i]
				*list = slices.Delete(*list, i, i+1)
				if !f.remove(k) || f.remove(k) {
					t.Fatal("a fresh call was not there once")
				}
			}
		}
		if n := f.epoch(); n != len(old) {
			t.Fatalf("%d callers were told, want %d", n, len(old))
		}
		for _, k := range old {
			if told++; len(k.ended) != 1 || <-k.ended || !c.lasts[k.typ].Load() || f.remove(k) {
				t.Fatal("the caller of a call that lasts was not told")
			}
		}
		for _, k := range young {
			if len(k.ended) != 0 {
				t.Fatal("a caller was told too early")
			}
		}
		old, young = young, nil
		if f.empty() != (len(old) == 0) {
			t.Fatal("empty")
		}
	}
	if told < 500 {
		t.Errorf("%d callers were told", told)
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}

// TestTypesThatLast: calls wait for their contexts from the beginning if the last call of their
// type took an epoch, if the deadline is near, or if epochs are long.
func TestTypesThatLast(t *testing.T) {
	st := newStub(t, Config{})
	rto := st.cfg.Timing.RTOMin
	clock := st.cfg.Simulation.Clock
	st.cfg.Simulation.Clock = nil
	c := &Client{rpc: st.Rpc}
	k := &goCall{client: c, typ: 7, ended: make(chan bool, 2)}
	waits := func(want bool, when string) {
		t.Helper()
		if k.waitsForEnd() != want {
			t.Errorf("%s: waits for the end alone: %v", when, !want)
		}
	}
	waits(true, "at first")
	k.timeout = rto
	waits(false, "a near deadline")
	k.timeout = rto + 1
	waits(true, "a far deadline")

	st.fresh.add(k)
	st.fresh.epoch()
	st.fresh.epoch()
	waits(false, "a call that lasts")
	k.began = st.engine.Now()
	st.engine.SetNow(k.began.Add(rto / 4))
	k.stopWaiting(st.Rpc)
	waits(false, "a call that took an epoch")
	k.began++
	k.stopWaiting(st.Rpc)
	waits(true, "a call that took less")

	st.cfg.Timing.RTOMin = 4*promptly + 4
	k.timeout = 0
	waits(false, "long epochs")
	st.cfg.Timing.RTOMin, st.cfg.Simulation.Clock = rto, clock
	waits(false, "a clock of a simulation")
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}

// TestRelease: when the loop's goroutine ends, whoever ends it, nobody waits for it alone.
func TestRelease(t *testing.T) {
	st := newStub(t, Config{})
	c := &Client{rpc: st.Rpc}
	l := &Loop{rpc: st.Rpc}
	st.handout.begin()
	var list [3]*goCall
	for i := range list {
		list[i] = &goCall{client: c, ended: make(chan bool, 2)}
	}
	st.fresh.add(list[0])
	st.fresh.epoch()
	st.fresh.add(list[1])
	st.handout.ended = append(st.handout.ended, list[2])
	l.release()
	for i, k := range list {
		if len(k.ended) != 1 || <-k.ended != (i == 2) {
			t.Errorf("caller %d was not told what became of its call", i)
		}
	}
	if _, ok := <-st.handout.line; ok {
		t.Error("a goroutine stands in line for ever")
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}
