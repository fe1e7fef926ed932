package conformance

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/userspace-rpc/erpc/rfp/onesided"
)

// Pair is a connection with both of its sides in this process.
type Pair struct {
	A, B onesided.Link
	Step func() // lets time pass: a step of a network, or a yield
}

// Open makes a connection whose sides have these regions. Links are closed by the test.
type Open func(t *testing.T, a, b []onesided.Spec) Pair

// private, readable and so on are the regions of both sides of most tests.
const (
	private = iota
	readable
	writable
	both
)

const regionSize = 4096

func specs() []onesided.Spec {
	return []onesided.Spec{{Size: regionSize}, {Size: regionSize, Access: onesided.PeerReads},
		{Size: regionSize, Access: onesided.PeerWrites},
		{Size: regionSize, Access: onesided.PeerReads | onesided.PeerWrites}}
}

// Run runs all tests.
func Run(t *testing.T, open Open) {
	for name, test := range map[string]func(*testing.T, Open){
		"Regions": regions, "WriteRead": writeRead, "Refused": refused, "Order": order,
		"Signals": signals, "Random": random, "View": view, "Window": window,
		"Close": closing, "NoAllocation": noAllocation,
	} {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}

// rig is a pair under test.
type rig struct {
	Pair
	t *testing.T
	b onesided.Batch
}

func start(t *testing.T, open Open) *rig {
	t.Helper()
	r := &rig{Pair: open(t, specs(), specs()), t: t}
	t.Cleanup(func() {
		_ = r.A.Close()
		_ = r.B.Close()
	})
	return r
}

const patience = 2_000_000

// until waits for a condition.
func (r *rig) until(what string, cond func() bool) {
	r.t.Helper()
	for range patience {
		if cond() {
			return
		}
		r.Step()
	}
	r.t.Fatalf("no %s", what)
}

// post posts what was put into the batch.
func (r *rig) post(l onesided.Link) {
	r.t.Helper()
	err := l.Post(&r.b)
	r.b.Reset()
	if err != nil {
		r.t.Fatal(err)
	}
}

// completions waits for n of them.
func (r *rig) completions(l onesided.Link, n int) (list []onesided.Completion) {
	r.t.Helper()
	var room [3]onesided.Completion
	r.until("completion", func() bool {
		list = append(list, room[:l.Poll(room[:])]...)
		return len(list) >= n
	})
	return list
}

// ok fails if one of the completions is an error.
func (r *rig) ok(list []onesided.Completion) {
	r.t.Helper()
	for _, c := range list {
		if c.Err != nil {
			r.t.Fatal(c.Err)
		}
	}
}

func regions(t *testing.T, open Open) {
	r := start(t, open)
	for _, l := range []onesided.Link{r.A, r.B} {
		for i, s := range specs() {
			if len(l.Region(i)) != s.Size || l.Peer()[i] != s {
				t.Fatalf("region %d: %d bytes, the peer's %+v", i, len(l.Region(i)), l.Peer()[i])
			}
			onesided.Load(l.Region(i), 0) // panics if not aligned
		}
		if l.Err() != nil {
			t.Fatal(l.Err())
		}
	}
}

func writeRead(t *testing.T, open Open) {
	r := start(t, open)
	for _, size := range []int{1, 7, 8, 9, 64, 100, 1000, regionSize} {
		want := bytes.Repeat([]byte{byte(size), 0xA5}, size)[:size]
		copy(r.A.Region(private), want)
		r.b.Write(private, 0, writable, 0, size, 1, true)
		r.post(r.A)
		r.ok(r.completions(r.A, 1))
		r.until("bytes", func() bool { return bytes.Equal(r.B.Region(writable)[:size], want) })

		copy(r.B.Region(readable), want)
		clear(r.A.Region(private))
		r.b.Read(private, 0, readable, 0, size, 2)
		r.post(r.A)
		r.ok(r.completions(r.A, 1))
		if !bytes.Equal(r.A.Region(private)[:size], want) {
			t.Fatalf("a READ of %d bytes got something else", size)
		}
	}
}

// refused holds that a bad batch posts nothing and harms nothing.
func refused(t *testing.T, open Open) {
	const half = math.MaxInt/2 + 1
	r := start(t, open)
	for name, c := range map[string]struct {
		op   onesided.Op
		want error
	}{
		"key":          {onesided.Op{Remote: 9, Size: 8}, onesided.ErrKey},
		"own key":      {onesided.Op{Local: 9, Remote: writable, Size: 8}, onesided.ErrKey},
		"write to RO":  {onesided.Op{Remote: readable, Size: 8}, onesided.ErrAccess},
		"read of WO":   {onesided.Op{Remote: writable, Size: 8, Read: true}, onesided.ErrAccess},
		"private":      {onesided.Op{Remote: private, Size: 8}, onesided.ErrAccess},
		"beyond":       {onesided.Op{Remote: both, To: regionSize - 7, Size: 8}, onesided.ErrBounds},
		"before":       {onesided.Op{Remote: both, To: -8, Size: 8}, onesided.ErrBounds},
		"own beyond":   {onesided.Op{Remote: both, At: regionSize, Size: 1}, onesided.ErrBounds},
		"nothing":      {onesided.Op{Remote: both}, onesided.ErrBounds},
		"overflow":     {onesided.Op{Remote: both, To: half, Size: half}, onesided.ErrBounds},
		"negative":     {onesided.Op{Remote: both, Size: -1}, onesided.ErrBounds},
		"whole region": {onesided.Op{Remote: both, Size: regionSize + 1}, onesided.ErrBounds},
	} {
		r.b.Write(private, 0, both, 0, 8, 1, true) // a good one before it
		r.b.Ops = append(r.b.Ops, c.op)
		copy(r.A.Region(private), "untold!!")
		err := r.A.Post(&r.b)
		r.b.Reset()
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	copy(r.A.Region(private), "told now")
	r.b.Write(private, 0, both, 8, 8, 77, true)
	r.post(r.A)
	list := r.completions(r.A, 1)
	r.ok(list)
	if list[0].ID != 77 || string(r.B.Region(both)[:8]) == "untold!!" {
		t.Fatal("something of a refused batch took place")
	}
}

// order holds that a READ sees the WRITE posted before it.
func order(t *testing.T, open Open) {
	r := start(t, open)
	for i := range 200 {
		mem := r.A.Region(private)
		onesided.Store(mem, 0, uint64(i)+1)
		r.b.Write(private, 0, both, 8*(i%5), 8, 0, false)
		r.b.Read(private, 64, both, 8*(i%5), 8, uint64(i))
		r.post(r.A)
		r.ok(r.completions(r.A, 1))
		if got := onesided.Load(mem, 64); got != uint64(i)+1 {
			t.Fatalf("the READ behind WRITE %d saw %d", i+1, got)
		}
	}
}

// signals holds that completions come for those operations that have one, in their order.
func signals(t *testing.T, open Open) {
	r := start(t, open)
	want := []uint64{1000, 1001} // a WRITE behind a READ that takes longer
	r.b.Read(private, 0, both, 0, regionSize, want[0])
	r.b.Write(private, 0, both, 0, 8, want[1], true)
	for i := range uint64(60) {
		switch i % 3 {
		case 0:
			r.b.Write(private, 0, both, 0, 16, i, false)
			continue
		case 1:
			r.b.Write(private, 0, both, 0, 16, i, true)
		case 2:
			r.b.Read(private, 64, both, 0, 16, i)
		}
		want = append(want, i)
	}
	r.post(r.A)
	list := r.completions(r.A, len(want))
	r.ok(list)
	if len(list) != len(want) {
		t.Fatalf("%d completions, want %d", len(list), len(want))
	}
	for i, c := range list {
		if c.ID != want[i] {
			t.Fatalf("completion %d is of %d, want %d", i, c.ID, want[i])
		}
	}
}

// random holds the regions to a model: both sides write to places of their own and read them back.
func random(t *testing.T, open Open) {
	r := start(t, open)
	rng := rand.New(rand.NewPCG(5, 5))
	shadow := map[onesided.Link][]byte{r.A: make([]byte, regionSize), r.B: make([]byte, regionSize)}
	for range 300 {
		l := []onesided.Link{r.A, r.B}[rng.IntN(2)]
		size := 1 + rng.IntN(300)
		to := rng.IntN(regionSize - size)
		mem := l.Region(private)
		for i := range size {
			mem[i] = byte(rng.Uint32())
		}
		copy(shadow[l][to:], mem[:size])
		r.b.Write(private, 0, both, to, size, 1, true)
		at := rng.IntN(regionSize - 512)
		r.b.Read(private, 1024, both, at, 512, 2)
		r.post(l)
		r.ok(r.completions(l, 2))
		if !bytes.Equal(mem[1024:1536], shadow[l][at:at+512]) {
			t.Fatal("a READ saw other bytes than were written")
		}
	}
}

// view holds that a view shows what the peer stores, and only what it grants.
func view(t *testing.T, open Open) {
	r := start(t, open)
	if r.A.View(private) != nil || r.A.View(writable) != nil {
		t.Error("a view of what may not be read")
	}
	if r.A.View(len(specs())) != nil || r.A.View(-1) != nil {
		t.Error("a view of no region")
	}
	v := r.A.View(readable)
	if v == nil {
		t.Skip("links without View, as the model's, show no memory in place")
	}
	onesided.Store(r.B.Region(readable), 8, 4711)
	r.until("store in the view", func() bool { return onesided.Load(v, 8) == 4711 })
}

// window holds that what is stored in a window reaches the peer, that no other memory has one, and
// that links have both views and windows, or neither.
func window(t *testing.T, open Open) {
	r := start(t, open)
	if r.A.Window(private) != nil || r.A.Window(readable) != nil {
		t.Error("a window to what may not be written")
	}
	if r.A.Window(len(specs())) != nil || r.A.Window(-1) != nil {
		t.Error("a window to no region")
	}
	w := r.A.Window(writable)
	if (w == nil) != (r.A.View(readable) == nil) {
		t.Error("a view without a window, or the reverse")
	}
	if w == nil {
		t.Skip("links without View, as the model's, have no window")
	}
	if len(w) != regionSize {
		t.Errorf("a window of %d bytes", len(w))
	}
	onesided.Copy(w[64:96], bytes.Repeat([]byte("window"), 6)[:32])
	if got := string(r.B.Region(writable)[64:96]); got != "windowwindowwindowwindowwindowwi" {
		t.Errorf("stored through the window: %q", got)
	}
}

// closing holds that the end of one side ends the other, with an error for each operation.
func closing(t *testing.T, open Open) {
	r := start(t, open)
	if err := r.B.Close(); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(r.B.Post(&r.b), onesided.ErrClosed) || !errors.Is(r.B.Err(), onesided.ErrClosed) {
		t.Error("a closed link works")
	}
	r.b.Read(private, 0, both, 0, 8, 5)
	err := r.A.Post(&r.b)
	r.b.Reset()
	if err == nil {
		list := r.completions(r.A, 1) // an error, or of before the end was noticed
		if len(list) != 1 || list[0].ID != 5 {
			t.Errorf("completions %+v", list)
		}
	}
	r.until("end of the link", func() bool {
		r.A.Poll(nil)
		return r.A.Err() != nil
	})
	if !errors.Is(r.A.Err(), onesided.ErrPeer) {
		t.Errorf("Err is %v, want ErrPeer", r.A.Err())
	}
	if err := r.A.Post(&r.b); err == nil {
		t.Error("a link without a peer takes operations")
	}
}

// noAllocation holds that a link in use allocates nothing; the model is no hot path.
func noAllocation(t *testing.T, open Open) {
	r := start(t, open)
	if r.A.View(readable) == nil {
		t.Skip("links without View, as the model's, may allocate")
	}
	var room [4]onesided.Completion
	n := testing.AllocsPerRun(1000, func() {
		r.b.Reset()
		r.b.Write(private, 0, both, 0, 64, 1, false)
		r.b.Read(private, 64, both, 0, 64, 2)
		if r.A.Post(&r.b) != nil {
			panic("post")
		}
		for r.A.Poll(room[:]) == 0 {
			r.Step()
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
