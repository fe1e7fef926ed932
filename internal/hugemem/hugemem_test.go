package hugemem

import (
	"errors"
	"testing"
	"unsafe"
)

func TestAlloc(t *testing.T) {
	for _, size := range []int{1, PageSize - 1, PageSize, PageSize + 1, HugeSize - 1, HugeSize,
		3 * HugeSize} {
		mem, huge, err := Alloc(size)
		if err != nil {
			t.Fatalf("Alloc(%d): %v", size, err)
		}
		if want := (size + PageSize - 1) / PageSize * PageSize; len(mem) != want || cap(mem) != want {
			t.Errorf("Alloc(%d): len %d, cap %d, want %d", size, len(mem), cap(mem), want)
		}
		if huge && size%HugeSize != 0 {
			t.Errorf("Alloc(%d) claims to be hugepages", size)
		}
		checkMemory(t, mem)
		if err := Free(mem); err != nil {
			t.Errorf("Free: %v", err)
		}
	}
}

// checkMemory checks alignment and that mem is zero and can be written.
func checkMemory(t *testing.T, mem []byte) {
	t.Helper()
	if uintptr(unsafe.Pointer(&mem[0]))%PageSize != 0 {
		t.Errorf("memory at %p is not aligned", &mem[0])
	}
	for i := range mem {
		if mem[i] != 0 {
			t.Fatalf("byte %d is %#x, want 0", i, mem[i])
		}
		mem[i] = byte(i)
	}
	for i := range mem {
		if mem[i] != byte(i) {
			t.Fatalf("byte %d is %#x after writing %#x", i, mem[i], byte(i))
		}
	}
}

func TestBadSize(t *testing.T) {
	for _, size := range []int{0, -1, -1 << 31, int(^uint(0) >> 1)} {
		if _, _, err := Alloc(size); !errors.Is(err, ErrSize) {
			t.Errorf("Alloc(%d): %v, want ErrSize", size, err)
		}
		if _, err := AllocPlain(size); !errors.Is(err, ErrSize) {
			t.Errorf("AllocPlain(%d): %v, want ErrSize", size, err)
		}
	}
}

// TestAdvise only finds out that the hint does no harm; it has no visible result.
func TestAdvise(t *testing.T) {
	mem, err := AllocPlain(2 * HugeSize)
	if err != nil {
		t.Fatal(err)
	}
	Advise(nil)
	Advise(mem)
	checkMemory(t, mem)
	if err := Free(mem); err != nil {
		t.Error(err)
	}
}
