package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// setPages chooses the pages that the heap has from now on: "huge", "ordinary" or "default", the
// system's choice.
func setPages(kind string) error {
	switch kind {
	case "default":
	case "huge":
		return eachHeapRange(func(from, to uintptr) error {
			return advise(from, to, unix.MADV_HUGEPAGE)
		})
	case "ordinary":
		return unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0)
	default:
		return fmt.Errorf("-pages %s: want huge, ordinary or default", kind)
	}
	return nil
}

// collapse makes huge pages of those that the heap has, and returns how many bytes are in such.
func collapse() (bytes uint64, err error) {
	runtime.GC()
	err = eachHeapRange(func(from, to uintptr) error {
		const huge = 2 << 20
		for from = (from + huge - 1) &^ (huge - 1); from+huge <= to; from += huge {
			// What is not there, or does not fit, stays as it is.
			_ = advise(from, from+huge, unix.MADV_COLLAPSE)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return hugeBytes()
}

func advise(from, to uintptr, advice int) error {
	_, _, e := unix.Syscall(unix.SYS_MADVISE, from, to-from, uintptr(advice))
	if e != 0 {
		return fmt.Errorf("madvise %#x to %#x: %w", from, to, e)
	}
	return nil
}

// eachHeapRange calls fn for the mappings of the Go heap.
func eachHeapRange(fn func(from, to uintptr) error) error {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return err
	}
	defer f.Close()
	var list [][2]uintptr
	for in := bufio.NewScanner(f); in.Scan(); {
		var from, to uintptr
		var mode string
		if _, err := fmt.Sscanf(in.Text(), "%x-%x %s", &from, &to, &mode); err != nil {
			return err
		}
		// The runtime's heap is without a name, and below what the system maps by itself.
		const system = 0x7000_0000_0000
		if mode == "rw-p" && len(strings.Fields(in.Text())) == 5 && from < system {
			list = append(list, [2]uintptr{from, to})
		}
	}
	for _, r := range list {
		err = errors.Join(err, fn(r[0], r[1]))
	}
	return err
}

// hugeBytes returns how much of the process lies in huge pages.
func hugeBytes() (n uint64, err error) {
	b, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if _, err := fmt.Sscanf(line, "AnonHugePages: %d kB", &n); err == nil {
			return n << 10, nil
		}
	}
	return 0, errors.New("smaps_rollup has no AnonHugePages")
}
