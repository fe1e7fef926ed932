package herd

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/kv/message"
	"github.com/userspace-rpc/erpc/kv/mica"
)

// bad is a network that does everything.
var bad = faults{loss: 0.05, twice: 0.05, torn: 0.2, delay: 300 * time.Microsecond}

// TestOnce: clients add to shared counters. Each number that an addition returns comes once, so no
// addition ran twice and none was lost, on a network that loses, repeats, reorders and tears.
func TestOnce(t *testing.T) {
	for _, d := range []struct {
		name          string
		writes, sends bool
	}{{"herd", false, false}, {"send", false, true}, {"write", true, false}} {
		for seed := range uint64(5) {
			t.Run(fmt.Sprint(d.name, seed), func(t *testing.T) {
				r := &rig{t: t, g: Geometry{2, 4, 128}, f: newFabric(seed, bad), writes: d.writes,
					sends: d.sends}
				r.open(3)
				once(t, r, 400)
				check(t, r, 3*400)
			})
		}
	}
}

// once has each client add 1 so many times to each of some counters.
func once(t *testing.T, r *rig, each int) {
	const counters = 5
	seen := map[uint64]bool{} // counter and number
	ended := 0
	for i := range uint64(counters) {
		key := []byte(fmt.Sprint("counter", i))
		hash := mica.Hash(key)
		items := r.items[mica.PartitionOf(hash, len(r.items))]
		if err := items.Put(items.Hash(key), key, []byte("0")); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range r.clients {
		left := each
		var more func()
		c.ended = func(d Done) {
			var n [2]uint64
			if d.Err == nil {
				d.Err = message.ParseNumbers(d.Body, n[:])
			}
			at := d.Tag<<32 | n[0]
			if d.Err != nil || seen[at] {
				t.Fatalf("counter %d: %d, seen %v, %v", d.Tag, n[0], seen[at], d.Err)
			}
			seen[at] = true
			ended++
			more()
		}
		more = func() {
			for ; left > 0; left-- {
				i := uint64(r.f.r.IntN(counters))
				k := message.Keyed{Key: []byte(fmt.Sprint("counter", i)), Delta: 1}
				k.Hash = mica.Hash(k.Key)
				body, err := k.Append(nil, message.Increment)
				if err != nil {
					t.Fatal(err)
				}
				part := mica.PartitionOf(k.Hash, r.g.Partitions)
				if err = c.window.Start(part, message.Increment, body, i, r.f.now); err == ErrBusy {
					return
				} else if err != nil {
					t.Fatal(err)
				}
			}
		}
		more()
	}
	total := each * len(r.clients)
	for pass := 0; ended < total; pass++ {
		if pass > 5_000_000 {
			t.Fatalf("%d of %d additions", ended, total)
		}
		r.pass()
	}
}

// check compares the counters of both sides with what the network did.
func check(t *testing.T, r *rig, total uint64) {
	var st Stats
	var repeats uint64
	for _, p := range r.parts {
		s := p.Stats()
		st.Add(&s)
	}
	for _, c := range r.clients {
		repeats += c.window.Counts().Repeats
		if c.window.Pending() != 0 {
			t.Errorf("%d requests under way", c.window.Pending())
		}
	}
	if r.sends && st.Stale > repeats {
		t.Errorf("%d stale marks, %d repeats", st.Stale, repeats)
	}
	if st.Requests != total || st.Refused[Answered] != total {
		t.Errorf("%d requests ran, want %d", st.Requests, total)
	}
	if f := r.f.faults; f.loss > 0 && (st.Repeats == 0 || repeats == 0) ||
		f.torn > 0 && !r.sends && st.Retakes == 0 {
		t.Errorf("the network did nothing: %+v, %d repeats", st, repeats)
	}
}

// TestStale: a late copy of an earlier request changes nothing, and one of the last repeats its
// answer.
func TestStale(t *testing.T) {
	r := newRig(t, Geometry{1, 1, 128}, 1, 1, faults{delay: 1})
	c, p := r.clients[0], r.parts[0]
	slot := r.g.slot(c.chunk, 0)
	put := func(m Mark, kind uint8, body string) {
		clear(slot)
		b := aligned(r.g.Slot)
		n := seal(b, copy(b, body), kind, m)
		copy(slot[len(slot)-n:], b[:n])
	}
	key := []byte("n")
	add := message.Keyed{Key: key, Hash: mica.Hash(key), Delta: 1}
	body, err := add.Append(nil, message.Increment)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.items[0].Put(r.items[0].Hash(key), key, []byte("0")); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		mark    Mark
		answers int
		value   string
	}{{markOf(1, 0), 1, "1"}, {markOf(1, 0), 0, "1"}, {markOf(1, 1), 1, "1"}, {markOf(2, 0), 1, "2"},
		{markOf(1, 1), 0, "2"}, {markOf(2, 0), 1, "2"}, {markOf(0, 1), 0, "2"},
		{markOf(9, 0), 1, "3"}, {markOf(8, 0), 0, "3"}, {markOf(1<<56-1, 0), 1, "4"}} {
		put(step.mark, message.Increment, string(body))
		n := p.Sweep()
		list := p.Run()
		it, _ := r.items[0].Get(r.items[0].Hash(key), key)
		if n != step.answers || len(list) != n || string(it.Value) != step.value {
			t.Errorf("%x: %d answers, value %s, want %d, %s", step.mark, n, it.Value, step.answers,
				step.value)
		}
		if n == 1 && Mark(binary.LittleEndian.Uint64(list[0].Frame[len(list[0].Frame)-8:])) != step.mark {
			t.Errorf("%x: the answer has another mark", step.mark)
		}
	}
	if st := p.Stats(); st.Stale != 3 || st.Repeats != 2 || st.Requests != 4 {
		t.Errorf("%+v", st)
	}
}
