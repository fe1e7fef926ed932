package msgbuf

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/userspace-rpc/erpc/internal/invariants"
)

// TestOwners walks through all states and tries every call in each.
func TestOwners(t *testing.T) {
	p := newPool(t, Config{})
	b := alloc(t, p, 10)
	expect := func(o Owner) {
		t.Helper()
		if b.Owner() != o || b.Size() != 10 {
			t.Fatalf("owner %v, size %d; want %v, 10", b.Owner(), b.Size(), o)
		}
	}

	expect(OwnerApp)
	mistake(t, "Return of a buffer that is not lent", b.Return)
	mistake(t, "SetSize above MaxSize", func() { b.SetSize(b.MaxSize() + 1) })
	mistake(t, "SetSize below 0", func() { b.SetSize(-1) })
	b.SetSize(10)
	expect(OwnerApp)

	if err := b.Lend(); err != nil {
		t.Fatal(err)
	}
	expect(OwnerLibrary)
	if err := b.Lend(); err != ErrInUse {
		t.Errorf("second Lend: %v", err)
	}
	if err := b.Resize(5); err != ErrInUse {
		t.Errorf("Resize of a lent buffer: %v", err)
	}
	mistake(t, "Data of a lent buffer", func() { b.Data() })
	mistake(t, "Free of a lent buffer", b.Free)
	expect(OwnerLibrary)
	if len(b.Bytes()) != 10 {
		t.Error("the library cannot read")
	}
	b.Return()
	expect(OwnerApp)

	b.Free()
	expect(OwnerNone)
	if err := b.Lend(); err != ErrFreed {
		t.Errorf("Lend of a freed buffer: %v", err)
	}
	if err := b.Resize(5); err != ErrFreed {
		t.Errorf("Resize of a freed buffer: %v", err)
	}
	mistake(t, "Data of a freed buffer", func() { b.Data() })
	mistake(t, "Return of a freed buffer", b.Return)
	mistake(t, "double Free", b.Free)
	expect(OwnerNone)

	st := p.Stats()
	if st.DoubleFrees != 1 || st.InUse != 0 {
		t.Errorf("%d double frees, want 1; %d in use, want 0", st.DoubleFrees, st.InUse)
	}
	// Return twice, SetSize twice, Free twice; Data checks in invariant builds only,
	// and there the panic comes instead of the count.
	if want := uint64(6); !invariants.Enabled && st.Misuses != want {
		t.Errorf("%d misuses, want %d", st.Misuses, want)
	}
	closePool(t, p)
}

func TestSetSizeClamps(t *testing.T) {
	if invariants.Enabled {
		t.Skip("panics in invariant builds; see TestOwners")
	}
	p := newPool(t, Config{})
	b := alloc(t, p, 10)
	for _, n := range []int{0, b.MaxSize(), 10} {
		b.SetSize(n)
	}
	if st := p.Stats(); st.Misuses != 0 || b.Size() != 10 {
		t.Errorf("%d misuses by sizes in range, size %d", st.Misuses, b.Size())
	}
	b.SetSize(1 << 30)
	if b.Size() != b.MaxSize() {
		t.Errorf("size %d", b.Size())
	}
	b.SetSize(-5)
	if b.Size() != 0 {
		t.Errorf("size %d", b.Size())
	}
	b.Free()
	closePool(t, p)
}

// TestDoubleFreeHarmless checks that after double frees no buffer is given out twice.
func TestDoubleFreeHarmless(t *testing.T) {
	for _, n := range []int{20, 2000, 1 << 20} {
		p := newPool(t, Config{})
		a, b := alloc(t, p, n), alloc(t, p, n)
		a.Free()
		for range 3 {
			mistake(t, "double Free", a.Free)
		}
		b.Free()
		mistake(t, "double Free", a.Free)
		if st := p.Stats(); st.DoubleFrees != 4 {
			t.Errorf("%d double frees, want 4", st.DoubleFrees)
		}
		x, y, z := alloc(t, p, n), alloc(t, p, n), alloc(t, p, n)
		if &x.mem[0] == &y.mem[0] || &y.mem[0] == &z.mem[0] || &x.mem[0] == &z.mem[0] {
			t.Error("the same memory was given out twice")
		}
		x.Free()
		y.Free()
		z.Free()
		closePool(t, p)
	}
}

// TestUnmappedIsHarmless uses pointers to buffers whose memory is gone.
func TestUnmappedIsHarmless(t *testing.T) {
	for _, n := range []int{20, 2000, 1 << 20} {
		p := newPool(t, Config{})
		b := alloc(t, p, n)
		b.Free()
		p.Trim()
		if b.Owner() != OwnerNone || b.Size() != 0 || b.MaxSize() != 0 {
			t.Errorf("owner %v, size %d of %d", b.Owner(), b.Size(), b.MaxSize())
		}
		if err := b.Lend(); err != ErrFreed {
			t.Errorf("Lend: %v", err)
		}
		if err := b.Resize(0); err != ErrFreed {
			t.Errorf("Resize: %v", err)
		}
		mistake(t, "Free", b.Free)
		b.Prefetch()
		// A panic that names the line, not a fault that ends the process.
		if !panics(func() { b.Bytes() }) || !panics(func() { b.Packet(0, 1000) }) {
			t.Error("memory that is gone can be reached")
		}
		closePool(t, p)
		mistake(t, "Free after Close", b.Free)
	}
}

// TestOldPointers checks what invariant builds add: an old pointer is told from the
// new owner's, and freed data is overwritten.
func TestOldPointers(t *testing.T) {
	if !invariants.Enabled {
		t.Skip("only in invariant builds")
	}
	for _, n := range []int{20, 2000, 1 << 20} {
		p := newPool(t, Config{})
		old := alloc(t, p, n)
		seen := old.Data()
		old.Free()
		if !bytes.Equal(seen, bytes.Repeat([]byte{poisonByte}, n)) {
			t.Error("freed data is still there")
		}
		b := alloc(t, p, n)
		if &b.Data()[0] != &seen[0] {
			t.Fatal("the memory was not used again")
		}
		mistake(t, "Free by an old pointer", old.Free)
		mistake(t, "Data by an old pointer", func() { old.Data() })
		if err := old.Lend(); err != ErrFreed {
			t.Errorf("Lend by an old pointer: %v", err)
		}
		if b.Owner() != OwnerApp || b.Size() != n {
			t.Errorf("owner %v, size %d", b.Owner(), b.Size())
		}
		b.Free()
		closePool(t, p)
	}
}

// TestPoison: all memory of the buffer is overwritten, and none of its neighbours.
func TestPoison(t *testing.T) {
	p := newPool(t, Config{})
	for _, n := range []int{0, 1, 7, 8, 9, 100, 1000, 5000} {
		bufs := allocs(t, p, 3, n)
		for _, b := range bufs {
			clear(b.mem)
		}
		bufs[1].poison()
		for i, b := range bufs {
			want := make([]byte, len(b.mem))
			if i == 1 {
				want = bytes.Repeat([]byte{poisonByte}, len(b.mem))
			}
			if !bytes.Equal(b.mem, want) {
				t.Errorf("%d bytes of data: chunk %d has % x", n, i, b.mem)
			}
		}
		bufs[0].Prefetch() // a hint: nothing to see
		freeAll(bufs)
	}
	closePool(t, p)
}

// TestFreedMemory: invariant builds overwrite all memory of a freed buffer, also what it held
// before it was made smaller. Others leave it alone.
func TestFreedMemory(t *testing.T) {
	const written = 0x5A
	for _, shared := range []bool{false, true} {
		for _, n := range []int{0, 20, 2000, 100_000, 1 << 20} {
			p := newPool(t, Config{Shared: shared})
			b := alloc(t, p, n)
			mem := b.mem
			for i := range mem {
				mem[i] = written
			}
			if err := b.Resize(n / 2); err != nil {
				t.Fatal(err)
			}
			b.Free()
			want := byte(written)
			if invariants.Enabled {
				want = poisonByte
			}
			if i := slices.IndexFunc(mem, func(c byte) bool { return c != want }); i >= 0 {
				t.Errorf("%d bytes of data: byte %d of %d is %#x after Free, want %#x",
					n, i, len(mem), mem[i], want)
			}
			closePool(t, p)
		}
	}
}

func TestErrors(t *testing.T) {
	err := error(&LeakError{3})
	if !errors.Is(err, ErrLeak) || errors.Is(err, ErrClosed) ||
		err.Error() != "msgbuf: buffers in use at close: 3" {
		t.Error(err)
	}
	for o, want := range map[Owner]string{OwnerNone: "none (freed)", OwnerApp: "application",
		OwnerLibrary: "library", 9: "invalid"} {
		if o.String() != want {
			t.Errorf("Owner(%d) = %q", o, o)
		}
	}
}
