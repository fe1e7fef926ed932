package mica

import "testing"

// marked is what an item has beside its value.
type marked struct {
	Marks   Marks
	Version uint64
	Expires uint32
}

// TestMarks: marks, versions and times of an item change and its value does not, in both modes. The
// owner and readers see the same, and a write begins anew.
func TestMarks(t *testing.T) {
	for _, mode := range []Mode{Cache, Store} {
		for _, readers := range []bool{false, true} {
			p, err := New(Config{Mode: mode, Memory: 1 << 20, Readers: readers, onHeap: true})
			if err != nil {
				t.Fatal(err)
			}
			key := []byte("key")
			h := plain(key)
			is := func(it Item, found bool, want marked) {
				t.Helper()
				if !found || string(it.Value) != "value" || it.Version != want.Version ||
					it.Expires != want.Expires || it.Flags != 5 {
					t.Errorf("%v, readers %v: %+v, %v, want %+v", mode, readers, it, found, want)
				}
			}
			both := func(want marked) {
				t.Helper()
				it, m, found := p.GetMarked(h, key)
				if is(it, found, want); m != want.Marks {
					t.Errorf("%v, readers %v: marks %b, want %b", mode, readers, m, want.Marks)
				}
				if readers {
					r, _ := p.NewReader()
					it, found = r.Get(h, key)
					is(it, found, want)
				}
			}
			if _, found := p.Change(h, key, Change{Set: Stale}); found {
				t.Error("there is none")
			}
			w := Write{Hash: h, Key: key, Value: []byte("value"), Flags: 5, Marks: Claimed,
				NewVersion: 1<<48 + 900}
			if v, err := p.Write(&w); v != 900 || err != nil {
				t.Error(v, err)
			}
			both(marked{Marks: Claimed, Version: 900})
			for _, row := range []struct {
				Change
				want marked
			}{
				{Change{Set: Stale | Fetched}, marked{Marks: Stale | Claimed | Fetched, Version: 900}},
				{Change{Clear: Claimed, NewVersion: 7}, marked{Marks: Stale | Fetched, Version: 7}},
				{Change{Renew: true, Expire: true, Expires: 50},
					marked{Marks: Stale | Fetched, Version: 1, Expires: 50}},
				{Change{Set: Stale, Clear: Stale}, marked{Marks: Stale | Fetched, Version: 1, Expires: 50}},
			} {
				it, found := p.Change(h, key, row.Change)
				is(it, found, row.want)
				both(row.want)
			}
			w.Marks, w.NewVersion = 0, 0
			if v, err := p.Write(&w); v != 2 || err != nil {
				t.Error(v, err)
			}
			both(marked{Version: 2})
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
