package msgbuf

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/userspace-rpc/erpc/wire"
)

// fill writes id over all of a buffer that its owner may write: header, data and
// later headers, at spots close enough that any overlap of two chunks shows.
func fill(b *Buffer, id uint64) {
	for _, at := range spots(b) {
		binary.LittleEndian.PutUint64(b.mem[at:], id+uint64(at))
	}
}

func check(t *testing.T, b *Buffer, id uint64) {
	t.Helper()
	for _, at := range spots(b) {
		if got := binary.LittleEndian.Uint64(b.mem[at:]); got != id+uint64(at) {
			t.Errorf("buffer %d of %d bytes: byte %d was overwritten", id, b.Size(), at)
			return
		}
	}
}

// spots returns offsets in the chunk: all of it if small, else one per page and
// the end. Chunks that overlap have a spot in common, or one end inside another.
func spots(b *Buffer) []int {
	step := 8
	if len(b.mem) > 4096 {
		step = lineSize
	}
	if len(b.mem) >= largeChunk {
		step = 4096
	}
	var all []int
	for at := 0; at+8 <= len(b.mem); at += step {
		all = append(all, at)
	}
	return append(all, len(b.mem)-8)
}

// TestModel does random calls and compares with a list of the buffers in use.
func TestModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	reg := &registry{t: t, live: map[uint32][]byte{}}
	const limit = 5 << 20
	p := newPool(t, Config{MaxMessage: 3 << 20, Limit: limit, Register: reg.register,
		Unregister: reg.unregister})
	type entry struct {
		b  *Buffer
		id uint64
	}
	var live []entry
	rounds := 20_000
	if testing.Short() {
		rounds = 2000
	}
	id, refused := uint64(1), 0
	for range rounds {
		switch r := rnd.IntN(1000); {
		case r < 500:
			n := rnd.IntN(1 << rnd.IntN(22))
			b, err := p.Alloc(n)
			if err == ErrNoMemory {
				refused++
				for range min(len(live), 50) {
					i := rnd.IntN(len(live))
					check(t, live[i].b, live[i].id)
					live[i].b.Free()
					live[i] = live[len(live)-1]
					live = live[:len(live)-1]
				}
				continue
			}
			if err != nil || b.Size() != n || b.MaxSize() < n {
				t.Fatalf("Alloc(%d): %v", n, err)
			}
			id += 1 << 32
			fill(b, id)
			live = append(live, entry{b, id})
		case r < 990 && len(live) > 0:
			i := rnd.IntN(len(live))
			check(t, live[i].b, live[i].id)
			live[i].b.Free()
			live[i] = live[len(live)-1]
			live = live[:len(live)-1]
		case r == 999:
			p.Trim()
		}
		if p.Reserved() > limit {
			t.Fatalf("%d bytes reserved", p.Reserved())
		}
	}
	st := p.Stats()
	if st.InUse != len(live) || st.Regions != len(reg.live) || st.Misuses != 0 {
		t.Errorf("%+v; want %d in use, %d regions", st, len(live), len(reg.live))
	}
	for _, e := range live {
		check(t, e.b, e.id)
		e.b.Free()
	}
	closePool(t, p)
	if len(reg.live) != 0 {
		t.Errorf("%d regions registered", len(reg.live))
	}
	t.Logf("%d refused by the limit", refused)
}

// TestShared lets goroutines allocate, hand buffers on and free those of others.
func TestShared(t *testing.T) {
	p := newPool(t, Config{Shared: true, MaxMessage: 2 << 20})
	const workers = 8
	rounds := 1000
	if testing.Short() {
		rounds = 100
	}
	type entry struct {
		b  *Buffer
		id uint64
	}
	pass := make(chan entry, 64)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 1))
			for i := range rounds {
				b, err := p.Alloc(rnd.IntN(1 << rnd.IntN(21)))
				if err != nil {
					t.Error(err)
					return
				}
				e := entry{b, uint64(w)<<56 | uint64(i)<<32}
				fill(b, e.id)
				select {
				case pass <- e:
				case e = <-pass:
					check(t, e.b, e.id)
					e.b.Free()
					check(t, b, uint64(w)<<56|uint64(i)<<32)
					b.Free()
				}
				if rnd.IntN(50) == 0 {
					p.Trim()
					p.Stats()
				}
				runtime.Gosched()
			}
		})
	}
	wg.Wait()
	close(pass)
	for e := range pass {
		check(t, e.b, e.id)
		e.b.Free()
	}
	if st := p.Stats(); st.InUse != 0 || st.Misuses != 0 {
		t.Errorf("%+v", st)
	}
	closePool(t, p)
}

// TestSharedDoubleFree frees one buffer from many goroutines: one succeeds, all
// others are noticed.
func TestSharedDoubleFree(t *testing.T) {
	const workers = 8
	p := newPool(t, Config{Shared: true})
	for range 50 {
		b := alloc(t, p, 100)
		before := p.Stats().DoubleFrees
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				defer func() { _ = recover() }() // invariant builds panic
				b.Free()
			})
		}
		wg.Wait()
		if st := p.Stats(); st.DoubleFrees != before+workers-1 || st.InUse != 0 {
			t.Fatalf("%d double frees noticed, want %d; %d in use", st.DoubleFrees-before,
				workers-1, st.InUse)
		}
	}
	closePool(t, p)
}

// TestPacketsRoundTrip sends a message packet by packet from one buffer to another,
// headers included, as a transport would.
func TestPacketsRoundTrip(t *testing.T) {
	p := newPool(t, Config{})
	for _, n := range []int{0, 1, 1000, 1001, 2000, 100_001, 8 << 20} {
		for _, per := range []int{1000, 1448, 8952} {
			from, to := alloc(t, p, n), alloc(t, p, n)
			clear(to.Data())
			rnd := rand.NewPCG(uint64(n), uint64(per))
			for i := range from.Data() {
				from.Data()[i] = byte(rnd.Uint64())
			}
			want := string(from.Data())
			h := wire.Header{Type: wire.TypeReq, MsgSize: uint32(n)}
			for i := range from.Packets(per) { // all headers first: they must not touch the data
				head, _ := from.Packet(i, per)
				h.ReqNum = uint64(i)
				h.Put(head, 0)
			}
			for i := range from.Packets(per) {
				head, data := from.Packet(i, per)
				packet := append(append([]byte(nil), head...), data...)
				if err := h.Parse(packet); err != nil || h.ReqNum != uint64(i) {
					t.Fatalf("size %d, packet %d: number %d, %v", n, i, h.ReqNum, err)
				}
				copy(to.Bytes()[i*per:], packet[wire.HeaderSize:])
			}
			if string(to.Data()) != want {
				t.Errorf("size %d, %d per packet: message changed", n, per)
			}
			from.Free()
			to.Free()
		}
	}
	closePool(t, p)
}
