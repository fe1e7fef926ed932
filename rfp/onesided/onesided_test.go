package onesided

import (
	"bytes"
	"errors"
	"testing"
	"unsafe"
)

// TestCheckSpecs holds the bounds of regions and of their number.
func TestCheckSpecs(t *testing.T) {
	for _, c := range []struct {
		s  Spec
		ok bool
	}{
		{Spec{0, 0}, false}, {Spec{-8, 0}, false}, {Spec{8, 0}, true}, {Spec{12, 0}, false},
		{Spec{MaxRegion, 3}, true}, {Spec{MaxRegion + 8, 0}, false}, {Spec{8, 4}, false},
	} {
		if err := CheckSpecs([]Spec{{8, 0}, c.s}); c.ok != (err == nil) ||
			err != nil && !errors.Is(err, ErrSpec) {
			t.Errorf("%+v: %v", c.s, err)
		}
	}
	list := make([]Spec, MaxRegions+1)
	for i := range list {
		list[i].Size = 8
	}
	if CheckSpecs(list[1:]) != nil || !errors.Is(CheckSpecs(list), ErrSpec) {
		t.Error("the number of regions")
	}
}

// TestCheck holds the bounds of operations, and the rights that they need.
func TestCheck(t *testing.T) {
	own, peer := []Spec{{64, 0}}, []Spec{{32, PeerReads}, {32, PeerWrites}}
	for _, c := range []struct {
		op   Op
		want error
	}{
		{Op{Read: true, Size: 32}, nil}, {Op{Remote: 1, Size: 32}, nil},
		{Op{Size: 8}, ErrAccess}, {Op{Read: true, Remote: 1, Size: 8}, ErrAccess},
		{Op{Local: 1, Remote: 1, Size: 8}, ErrKey}, {Op{Remote: 2, Size: 8}, ErrKey},
		{Op{Remote: 1}, ErrBounds}, {Op{Remote: 1, Size: 1}, nil},
		{Op{Remote: 1, At: -1, Size: 8}, ErrBounds}, {Op{Remote: 1, To: -1, Size: 8}, ErrBounds},
		{Op{Remote: 1, At: 56, To: 24, Size: 8}, nil}, {Op{Remote: 1, At: 57, Size: 8}, ErrBounds},
		{Op{Remote: 1, To: 25, Size: 8}, ErrBounds},
	} {
		if err := c.op.Check(own, peer); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.op, err, c.want)
		}
	}
}

// TestMemory holds size and alignment, and that words which are not aligned are refused.
func TestMemory(t *testing.T) {
	for _, n := range []int{0, 1, 63, 64, 65, 4096} {
		m := Memory(n)
		if len(m) != n || cap(m) != n || uintptr(unsafe.Pointer(unsafe.SliceData(m)))&63 != 0 && n > 0 {
			t.Errorf("%d bytes: %d, %d at %p", n, len(m), cap(m), m)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a word at 4 was read")
		}
	}()
	Load(Memory(64), 4)
}

// TestCopy copies to and from places of all alignments, and changes nothing around them.
func TestCopy(t *testing.T) {
	from := []byte("0123456789abcdefghijklmnopqrstuvwxyz")
	for at := range 17 {
		for n := range len(from) {
			mem := bytes.Repeat([]byte{'.'}, 64)
			to := Memory(64)
			copy(to, mem)
			copy(mem[at:], from[:n])
			if Copy(to[at:at+n], from[:n]); !bytes.Equal(to, mem) {
				t.Fatalf("%d bytes to %d: %q", n, at, to)
			}
		}
	}
}
