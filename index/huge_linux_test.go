package index

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"
)

// TestHugePages: nodes that are made after HugePages lie in memory that has been advised.
func TestHugePages(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err != nil {
		t.Skip("this kernel has no transparent huge pages, and no privilege gives any")
	}
	HugePages()
	t.Cleanup(func() { hugePages.Store(false) })
	m := NewMap()
	for i := range 100_000 {
		if _, _, err := m.Put(fmt.Append(nil, i), 1); err != nil {
			t.Fatal(err)
		}
	}
	n := m.tree.root.Load()
	for n.level > 0 {
		if !advised(t, n) {
			t.Errorf("an inner node of level %d lies in ordinary pages", n.level)
		}
		n = n.inner().kid(n.inner().size() / 2)
	}
	if !advised(t, n) {
		t.Error("a leaf lies in ordinary pages")
	}
	var leaves []*Map // 11 MiB of leaves, and no inner node
	for range 10_000 {
		leaves = append(leaves, NewMap())
	}
	if !advised(t, leaves[len(leaves)-1].tree.root.Load()) {
		t.Error("a leaf without inner nodes around lies in ordinary pages")
	}
}

// advised reports whether the mapping of a node has the flag for huge pages, by proc(5) smaps.
func advised(t *testing.T, n *node) bool {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	here := false
	for in := bufio.NewScanner(f); in.Scan(); {
		var from, to uintptr
		if k, err := fmt.Sscanf(in.Text(), "%x-%x ", &from, &to); k == 2 && err == nil {
			at := uintptr(unsafe.Pointer(n))
			here = from <= at && at < to
		}
		if flags, ok := strings.CutPrefix(in.Text(), "VmFlags:"); ok && here {
			return strings.Contains(flags+" ", " hg ")
		}
	}
	t.Fatal("a node lies in no mapping")
	return false
}
