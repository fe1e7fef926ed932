package bypass_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/userspace-rpc/erpc/rfp"
	"github.com/userspace-rpc/erpc/rfp/jakiro/bypass"
	"github.com/userspace-rpc/erpc/rfp/onesided"
	"github.com/userspace-rpc/erpc/rfp/onesided/model"
)

var (
	layout   = bypass.Layout{Buckets: 1024, Item: 64}
	geometry = rfp.Geometry{Slots: 4, Request: 256, Response: 256}
)

// rig is a table, and a client that READs on one link and calls on another.
type rig struct {
	t     testing.TB
	net   *model.Network
	table *bypass.Table
	srv   *rfp.Server
	calls *rfp.Client
	k     *bypass.Client
	links [4]*model.Link
}

func newRig(t testing.TB, seed uint64, layout bypass.Layout) *rig {
	t.Helper()
	r := &rig{t: t, net: model.New(model.Paper(), seed)}
	p := r.net.Params()
	here, there := r.net.Machine(p.Client), r.net.Machine(p.Server)
	connect := func(a, b []onesided.Spec) (x, y *model.Link) {
		x, y, err := model.Connect(here, there, a, b)
		if err != nil {
			t.Fatal(err)
		}
		return x, y
	}
	const window = 4
	x, y := connect(layout.ClientSpecs(window), layout.Specs())
	cx, cy := connect(rfp.ClientSpecs(geometry), rfp.ServerSpecs(geometry))
	r.links = [4]*model.Link{x, y, cx, cy}
	var err error
	must := func() {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	r.table, err = bypass.NewTable(layout, y.Region(0), y.Region(1))
	must()
	r.srv, err = rfp.NewServer(rfp.ServerConfig{Geometry: geometry})
	must()
	bypass.Attach(r.srv, r.table)
	err = r.srv.Serve(cy)
	must()
	r.calls, err = rfp.NewClient(cx, rfp.Config{Geometry: geometry})
	must()
	r.k, err = bypass.NewClient(layout, x, r.calls, window)
	must()
	r.until("server", r.k.Ready)
	return r
}

func (r *rig) until(what string, cond func() bool) {
	r.t.Helper()
	for range 1_000_000 {
		if cond() {
			return
		}
		r.net.Step()
		r.srv.Poll(4)
		r.k.Poll(r.net.Now())
	}
	r.t.Fatalf("no %s: %v", what, r.k.Err())
}

func key(i int) []byte { return fmt.Appendf(nil, "key %07d", i) }

// value names its key and a version.
func value(i int, version uint64) []byte {
	v := binary.LittleEndian.AppendUint64(nil, version)
	return append(v, bytes.Repeat([]byte{byte(i) ^ byte(version)}, 24)...)
}

// TestTable fills a table to 3 quarters and holds it to a map, through PUTs and deletions.
func TestTable(t *testing.T) {
	index, heap := onesided.Memory(layout.Specs()[0].Size), onesided.Memory(layout.Specs()[1].Size)
	table, err := bypass.NewTable(layout, index, heap)
	if err != nil {
		t.Fatal(err)
	}
	shadow := map[int][]byte{}
	rng := rand.New(rand.NewPCG(1, 1))
	full := 0
	for i := range 40_000 {
		k := rng.IntN(1000)
		if rng.IntN(5) == 0 {
			if _, there := shadow[k]; table.Delete(key(k)) != there {
				t.Fatalf("deletion of %d, want %v", k, there)
			}
			delete(shadow, k)
			continue
		}
		switch err := table.Put(key(k), value(k, uint64(i))); {
		case errors.Is(err, bypass.ErrFull):
			full++
			if _, there := shadow[k]; there {
				t.Fatal("no place for a key that is there")
			}
		case err != nil:
			t.Fatal(err)
		default:
			shadow[k] = value(k, uint64(i))
		}
		if table.Len() != len(shadow) {
			t.Fatalf("%d keys, want %d", table.Len(), len(shadow))
		}
	}
	for k := range 1000 {
		got, found := table.Get(key(k))
		if want, there := shadow[k]; found != there || !bytes.Equal(got, want) {
			t.Errorf("key %d: %x, %v, want %x, %v", k, got, found, want, there)
		}
	}
	if full == 0 || len(shadow) < 700 {
		t.Errorf("%d keys, %d times full", len(shadow), full)
	}
	if err := table.Put(nil, nil); !errors.Is(err, bypass.ErrSize) {
		t.Errorf("no key: %v", err)
	}
	if err := table.Put(key(1), make([]byte, 64)); !errors.Is(err, bypass.ErrSize) {
		t.Errorf("a large value: %v", err)
	}
}

// TestReads counts the READs of a GET in a table that is full to 3 quarters: Pilaf's 2.6.
func TestReads(t *testing.T) {
	r := newRig(t, 1, layout)
	n := 0
	for ; r.table.Put(key(n), value(n, 0)) == nil; n++ {
	}
	ended := 0
	for i := range n {
		r.until("room", r.k.Ready)
		if err := r.k.Get(key(i), uint64(i), func(tag uint64, got []byte, found bool, err error) {
			ended++
			if err != nil || !found || !bytes.Equal(got, value(int(tag), 0)) {
				t.Errorf("key %d: %x, %v, %v", tag, got, found, err)
			}
		}); err != nil {
			t.Fatal(err)
		}
		r.k.Poll(r.net.Now())
	}
	r.until("ends", func() bool { return ended == n })
	st := r.k.Stats()
	if each := float64(st.Reads) / float64(n); n != 768 || each < 2.3 || each > 2.8 || st.Asked != 0 {
		t.Errorf("%d keys, %.2f READs each, %+v", n, each, st)
	}
}

// TestBesideWrites reads while keys are overwritten, moved and deleted, in memory that is seen half
// written. A GET must see a version that was there while it went on.
func TestBesideWrites(t *testing.T) {
	torn := uint64(0)
	for seed := range uint64(20) {
		r := newRig(t, seed, bypass.Layout{Buckets: 32, Item: 64})
		r.net.Tear()
		rng := rand.New(rand.NewPCG(seed, 2))
		var last [23]uint64 // version of each key, 0: not there
		version, open := uint64(0), 0
		for i := range last {
			if r.table.Put(key(i), value(i, 1)) == nil {
				last[i] = 1
			}
		}
		for version = 2; version < 4000; version++ {
			k := rng.IntN(len(last))
			switch rng.IntN(6) {
			case 0:
				if last[k] != 0 && r.table.Delete(key(k)) {
					last[k] = 0
				}
			case 1, 2:
				if r.table.Put(key(k), value(k, version)) == nil {
					last[k] = version
				}
			default:
				if !r.k.Ready() {
					break
				}
				open++
				from := last[k]
				if err := r.k.Get(key(k), uint64(k), func(_ uint64, got []byte, found bool, err error) {
					open--
					switch {
					case err != nil:
						t.Error(err)
					case !found: // it may have been deleted and stored again meanwhile
						if from != 0 && last[k] == from {
							t.Errorf("key %d is there, with version %d", k, from)
						}
					default:
						seen := binary.LittleEndian.Uint64(got)
						if seen < from || seen > version || !bytes.Equal(got, value(k, seen)) {
							t.Errorf("key %d: version %d, want %d to %d: %x", k, seen, from, version, got)
						}
					}
				}); err != nil {
					t.Fatal(err)
				}
			}
			r.k.Poll(r.net.Now())
			for range rng.IntN(3) {
				r.net.Step()
			}
			r.srv.Poll(1)
		}
		r.until("ends", func() bool { return open == 0 })
		torn += r.k.Stats().Torn
	}
	if torn == 0 {
		t.Error("no READ saw something half written")
	}
}

// TestMissing holds that a key that is not there costs three READs and a call.
func TestMissing(t *testing.T) {
	r := newRig(t, 1, layout)
	ended := false
	if err := r.k.Get(key(1), 0, func(_ uint64, _ []byte, found bool, err error) {
		ended = !found && err == nil
	}); err != nil {
		t.Fatal(err)
	}
	r.until("end", func() bool { return ended })
	if st := r.k.Stats(); st.Reads != 3 || st.Asked != 1 {
		t.Errorf("%+v", st)
	}
	if err := r.k.Get(nil, 0, nil); !errors.Is(err, bypass.ErrSize) {
		t.Errorf("GET of no key: %v", err)
	}
}

// TestEnds holds that all GETs end once when a link breaks.
func TestEnds(t *testing.T) {
	for i := range 4 {
		for steps := range 20 {
			r := newRig(t, 1, layout)
			_ = r.table.Put(key(1), value(1, 1))
			ended := 0
			for j := range 4 {
				if err := r.k.Get(key(j%2), 0, func(uint64, []byte, bool, error) { ended++ }); err != nil {
					t.Fatal(err)
				}
			}
			for range steps {
				r.k.Poll(r.net.Now())
				r.net.Step()
			}
			r.links[i].Break(onesided.ErrPeer)
			r.until("end", func() bool { return ended == 4 && r.k.Err() != nil })
			if !errors.Is(r.k.Err(), onesided.ErrPeer) || r.k.Ready() {
				t.Error(r.k.Err())
			}
		}
	}
}

// FuzzIndex gives a client any bytes for the table that it reads.
func FuzzIndex(f *testing.F) {
	f.Add([]byte("some entry"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := newRig(t, 1, layout)
		index := r.links[1].Region(0)
		for i := range index {
			if len(data) > 0 {
				index[i] = data[i%len(data)]
			}
		}
		ended := false
		_ = r.k.Get(key(1), 0, func(uint64, []byte, bool, error) { ended = true })
		r.until("end", func() bool { return ended })
	})
}

func TestLayout(t *testing.T) {
	for _, l := range []bypass.Layout{{}, {Buckets: 12, Item: 8}, {Buckets: 1 << 22, Item: 8},
		{Buckets: 1024}, {Buckets: 1 << 20, Item: 4096}} {
		if err := l.Check(); !errors.Is(err, bypass.ErrLayout) {
			t.Errorf("%+v: %v", l, err)
		}
	}
}
