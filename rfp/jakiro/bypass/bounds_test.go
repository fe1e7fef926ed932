package bypass_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/userspace-rpc/erpc/rfp"
	"github.com/userspace-rpc/erpc/rfp/jakiro"
	"github.com/userspace-rpc/erpc/rfp/jakiro/bypass"
	"github.com/userspace-rpc/erpc/rfp/onesided"
	"github.com/userspace-rpc/erpc/rfp/onesided/model"
)

// TestLayoutBounds holds the least and the largest tables, and those just beyond.
func TestLayoutBounds(t *testing.T) {
	for l, want := range map[bypass.Layout]error{
		{Buckets: 8, Item: 1}: nil, {Buckets: bypass.MaxBuckets, Item: 1}: nil,
		{Buckets: 8, Item: 1<<24 - 1}: nil, {Buckets: 128, Item: 1 << 23}: nil,
		{Buckets: 4, Item: 8}:                     bypass.ErrLayout,
		{Buckets: 2 * bypass.MaxBuckets, Item: 1}: bypass.ErrLayout,
		{Buckets: 8, Item: 0}:                     bypass.ErrLayout,
		{Buckets: 8, Item: 1 << 24}:               bypass.ErrLayout,
		{Buckets: 128, Item: 1<<23 + 1}:           bypass.ErrLayout,
	} {
		if err := l.Check(); !errors.Is(err, want) {
			t.Errorf("%+v: %v, want %v", l, err, want)
		}
	}
}

func newTable(t *testing.T, l bypass.Layout) *bypass.Table {
	t.Helper()
	s := l.Specs()
	table, err := bypass.NewTable(l, onesided.Memory(s[0].Size), onesided.Memory(s[1].Size))
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestPutBounds holds the sizes of keys and values that a table takes.
func TestPutBounds(t *testing.T) {
	table := newTable(t, bypass.Layout{Buckets: 32, Item: 300})
	for _, c := range []struct {
		key, value int
		want       error
	}{
		{0, 1, bypass.ErrSize}, {1, 0, nil}, {1, 299, nil}, {1, 300, bypass.ErrSize}, {255, 45, nil},
		{255, 46, bypass.ErrSize}, {256, 0, bypass.ErrSize},
	} {
		k, v := bytes.Repeat([]byte{'k'}, c.key), bytes.Repeat([]byte{'v'}, c.value)
		if err := table.Put(k, v); !errors.Is(err, c.want) {
			t.Errorf("%d and %d bytes: %v, want %v", c.key, c.value, err, c.want)
		}
		if got, ok := table.Get(k); c.want == nil && (!ok || !bytes.Equal(got, v)) {
			t.Errorf("%d and %d bytes: %d bytes, %v", c.key, c.value, len(got), ok)
		}
	}
}

// TestFirstPlace takes keys whose only place is the first one. A second of them finds no room, and
// the search for it ends; the first one can be overwritten.
func TestFirstPlace(t *testing.T) {
	l := bypass.Layout{Buckets: 8, Item: 16}
	var keys [][]byte
	for i := 0; len(keys) < 2; i++ {
		if l.Places(key(i)) == [3]int{} {
			keys = append(keys, key(i))
		}
	}
	table := newTable(t, l)
	for _, v := range []string{"one", "two"} {
		if err := table.Put(keys[0], []byte(v)); err != nil {
			t.Fatal(err)
		}
		if got, ok := table.Get(keys[0]); !ok || string(got) != v || table.Len() != 1 {
			t.Errorf("%q, %v, %d keys, want %q", got, ok, table.Len(), v)
		}
	}
	if err := table.Put(keys[1], nil); !errors.Is(err, bypass.ErrFull) || table.Len() != 1 {
		t.Errorf("a second key: %v, %d keys", err, table.Len())
	}
}

// get makes a GET, and returns its result when it has ended. Poll must say that one has.
func (r *rig) get(k []byte) (value []byte, found bool, err error) {
	r.t.Helper()
	over, said := false, 0
	if err := r.k.Get(k, 0, func(_ uint64, got []byte, ok bool, e error) {
		value, found, err, over = bytes.Clone(got), ok, e, true
	}); err != nil {
		return nil, false, err
	}
	for i := 0; !over; i++ {
		r.net.Step()
		r.srv.Poll(4)
		if said += r.k.Poll(r.net.Now()); i == 1_000_000 {
			r.t.Fatal("no end of a GET")
		}
	}
	if said != 1 {
		r.t.Errorf("Poll says that %d GETs ended", said)
	}
	return value, found, err
}

// TestGetBounds holds the sizes of keys and items that a client READs.
func TestGetBounds(t *testing.T) {
	r := newRig(t, 1, bypass.Layout{Buckets: 64, Item: 300})
	for i, n := range []int{1, 255} {
		k, v := bytes.Repeat([]byte{'k'}, n), bytes.Repeat([]byte{'v'}, 300-n)
		if err := r.table.Put(k, v); err != nil {
			t.Fatal(err)
		}
		got, found, err := r.get(k)
		if st := r.k.Stats(); err != nil || !found || !bytes.Equal(got, v) || st.Asked != 0 ||
			st.Gets != uint64(i)+1 {
			t.Errorf("key of %d bytes: %d bytes, %v, %v, %+v", n, len(got), found, err, st)
		}
	}
	for _, n := range []int{0, 256} {
		if _, _, err := r.get(make([]byte, n)); !errors.Is(err, bypass.ErrSize) {
			t.Errorf("key of %d bytes: %v", n, err)
		}
	}
	var err error
	over := false
	q := rfp.Call{Kind: jakiro.Put, Body: jakiro.AppendPut(nil, []byte("k"), make([]byte, 200))}
	q.Done = func(_ uint64, _ []byte, e error) { err, over = e, true }
	r = newRig(t, 1, layout)
	if err := r.calls.Send(&q); err != nil {
		t.Fatal(err)
	}
	r.until("end of a PUT", func() bool { return over })
	if err != rfp.RemoteError(bypass.ErrSize.Error()) {
		t.Errorf("a PUT of 200 bytes: %v", err)
	}
}

// TestForged holds that entries which no server makes are not followed: the server answers by
// itself. So it does when a checksum stays wrong, after some tries.
func TestForged(t *testing.T) {
	items := layout.Buckets
	for _, c := range []struct {
		name        string
		item, value int
		spoil       bool
		torn        uint64
	}{
		{"behind the last item", items, 8, false, 0}, {"far", 1 << 30, 8, false, 0},
		{"too large", 0, layout.Item - len(key(1)) + 1, false, 0},
		{"torn for ever", 0, 8, true, bypass.Patience + 1},
	} {
		r := newRig(t, 1, layout)
		at := layout.Places(key(1))[0] * bypass.EntryBytes
		mem := r.links[1].Region(0)[at : at+bypass.EntryBytes]
		bypass.Forge(mem, key(1), c.item, c.value)
		if c.spoil {
			mem[24] ^= 1
		}
		r.srv.Handle(jakiro.Get, func(_, resp []byte) ([]byte, error) {
			return append(resp, 1, 'v'), nil
		})
		got, found, err := r.get(key(1))
		st := r.k.Stats()
		if err != nil || !found || string(got) != "v" || st.Asked != 1 || st.Torn != c.torn {
			t.Errorf("%s: %q, %v, %v, %+v", c.name, got, found, err, st)
		}
	}
}

// TestWindows holds how many GETs may be under way.
func TestWindows(t *testing.T) {
	for _, n := range []int{0, 1, bypass.MaxWindow, bypass.MaxWindow + 1} {
		net := model.New(model.Paper(), 1)
		p := net.Params()
		x, _, err := model.Connect(net.Machine(p.Client), net.Machine(p.Server),
			layout.ClientSpecs(max(n, 1)), layout.Specs())
		if err != nil {
			t.Fatal(err)
		}
		k, err := bypass.NewClient(layout, x, nil, n)
		if n < 1 || n > bypass.MaxWindow {
			if !errors.Is(err, bypass.ErrLayout) {
				t.Errorf("%d GETs: %v", n, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range n + 1 {
			err := k.Get(key(i), 0, func(uint64, []byte, bool, error) {})
			if want := i == n; errors.Is(err, rfp.ErrBusy) != want || err != nil && !want {
				t.Errorf("GET %d of %d: %v", i+1, n, err)
			}
		}
	}
}
