package hugemem

import (
	"bytes"
	"os"
	"strconv"
	"testing"
)

func TestParseMeminfo(t *testing.T) {
	free, total, size := parseMeminfo([]byte("MemTotal:  8151300 kB\nHugePages_Total:      64\n" +
		"HugePages_Free:       61\nHugePages_Rsvd:        1\n\nodd\nHugePages_Free: x\nHugepagesize:   " +
		"    2048 kB\n"))
	if free != 61 || total != 64 || size != HugeSize {
		t.Errorf("free %d, total %d, size %d", free, total, size)
	}
	if free, total, size := parseMeminfo(nil); free != 0 || total != 0 || size != 0 {
		t.Errorf("nothing: free %d, total %d, size %d", free, total, size)
	}
}

// TestWrongFree checks that freeing twice, a part, or foreign memory is refused.
func TestWrongFree(t *testing.T) {
	mem, err := AllocPlain(4 * PageSize)
	if err != nil {
		t.Fatal(err)
	}
	if Free(mem[:PageSize]) == nil || Free(mem[PageSize:]) == nil {
		t.Error("a part was freed")
	}
	if Free(make([]byte, PageSize)) == nil || Free(nil) == nil {
		t.Error("foreign memory was freed")
	}
	mem[0] = 1 // still mapped
	if err := Free(mem); err != nil {
		t.Fatal(err)
	}
	if Free(mem) == nil {
		t.Error("freed twice")
	}
}

// resident returns the resident set in bytes, from proc(5) statm.
func resident(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip(err)
	}
	pages, err := strconv.Atoi(string(bytes.Fields(text)[1]))
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// TestMemoryReturns checks that memory costs nothing before it is touched and is
// the system's again after Free.
func TestMemoryReturns(t *testing.T) {
	const size, slack = 64 << 20, 8 << 20
	before := resident(t)
	mem, err := AllocPlain(size)
	if err != nil {
		t.Fatal(err)
	}
	if r := resident(t); r > before+slack {
		t.Errorf("untouched memory takes %d bytes", r-before)
	}
	for i := 0; i < size; i += PageSize {
		mem[i] = 1
	}
	if r := resident(t); r < before+size-slack {
		t.Errorf("touched memory takes only %d bytes", r-before)
	}
	if err := Free(mem); err != nil {
		t.Fatal(err)
	}
	if r := resident(t); r > before+slack {
		t.Errorf("%d bytes did not return", r-before)
	}
}

// TestFallback asks for more hugepages than there are.
func TestFallback(t *testing.T) {
	_, total, _ := Available()
	mem, huge, err := Alloc((total + 1) * HugeSize)
	if err != nil {
		t.Fatal(err)
	}
	if huge {
		t.Errorf("%d hugepages out of %d", total+1, total)
	}
	mem[0], mem[len(mem)-1] = 1, 1
	if err := Free(mem); err != nil {
		t.Error(err)
	}
}

const nrHugepages = "/proc/sys/vm/nr_hugepages"

// needHugepages makes sure that n hugepages are free. It changes the system's
// setting, until the end of the test, only for root in CI.
func needHugepages(t *testing.T, n int) {
	t.Helper()
	free, total, size := Available()
	if size == HugeSize && free >= n {
		return
	}
	if os.Getenv("CI") != "true" || os.Getuid() != 0 {
		t.Skipf("%d free hugepages of %d bytes, need %d of %d (see %s)", free, size, n, HugeSize,
			nrHugepages)
	}
	set := func(n int) {
		if err := os.WriteFile(nrHugepages, []byte(strconv.Itoa(n)), 0); err != nil {
			t.Fatal(err)
		}
	}
	set(total + n)
	t.Cleanup(func() { set(total) })
	if free, _, size := Available(); size != HugeSize || free < n {
		t.Fatalf("%d free hugepages of %d bytes after reserving %d", free, size, n)
	}
}

func TestHugepages(t *testing.T) {
	needHugepages(t, 3)
	before, _, _ := Available()
	mem, huge, err := Alloc(3 * HugeSize)
	if err != nil {
		t.Fatal(err)
	}
	if !huge {
		t.Fatal("ordinary pages although hugepages are free")
	}
	if free, _, _ := Available(); free != before-3 {
		t.Errorf("%d hugepages free, want %d: not committed", free, before-3)
	}
	checkMemory(t, mem)
	if err := Free(mem); err != nil {
		t.Fatal(err)
	}
	if free, _, _ := Available(); free != before {
		t.Errorf("%d hugepages free after Free, want %d", free, before)
	}
	plain, err := AllocPlain(HugeSize)
	if err != nil {
		t.Fatal(err)
	}
	plain[0] = 1
	if free, _, _ := Available(); free != before {
		t.Error("AllocPlain took hugepages")
	}
	if err := Free(plain); err != nil {
		t.Error(err)
	}
}
