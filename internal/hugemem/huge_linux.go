package hugemem

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	mapHugetlb    = 0x40000  // MAP_HUGETLB, on all architectures but MIPS
	mapHuge2M     = 21 << 26 // MAP_HUGE_2MB of mmap(2): log2 of the page size above bit 26
	populateWrite = 23       // MADV_POPULATE_WRITE of madvise(2), Linux 5.14
)

// mapHuge returns size bytes of committed 2 MiB hugepages, or nil.
func mapHuge(size int) []byte {
	if strings.HasPrefix(runtime.GOARCH, "mips") {
		return nil
	}
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE|mapHugetlb|mapHuge2M)
	if err != nil {
		return nil
	}
	// A mapping can succeed where a control group forbids the pages themselves:
	// the first access would then end the process. Find out here. A kernel that
	// does not know the call (EINVAL) leaves it at the reservation mmap made.
	if err := unix.Madvise(mem, populateWrite); err != nil && err != unix.EINVAL {
		_ = unix.Munmap(mem) // just mapped: cannot fail
		return nil
	}
	return mem
}

func grow(mem []byte, size int) ([]byte, bool) {
	bigger, err := unix.Mremap(mem, size, unix.MREMAP_MAYMOVE)
	return bigger, err == nil
}

func advise(mem []byte) {
	if len(mem) != 0 {
		_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // a hint
	}
}

// adviseBlock is for memory of the runtime, to which there is no slice; nothing of it is lost.
func adviseBlock(from uintptr) {
	for _, advice := range [...]uintptr{unix.MADV_HUGEPAGE, unix.MADV_COLLAPSE} {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, heapBlock, advice) // hints
	}
}

// available reads /proc/meminfo, see proc(5).
func available() (free, total, size int) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0, 0
	}
	return parseMeminfo(text)
}

func parseMeminfo(text []byte) (free, total, size int) {
	for line := range bytes.Lines(text) {
		f := bytes.Fields(line)
		if len(f) < 2 {
			continue
		}
		n, err := strconv.Atoi(string(f[1]))
		if err != nil || n < 0 {
			continue
		}
		switch string(f[0]) {
		case "HugePages_Free:":
			free = n
		case "HugePages_Total:":
			total = n
		case "Hugepagesize:":
			size = n << 10 // the file says kB and means KiB
		}
	}
	return free, total, size
}
