package sys

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"
)

// TestVendor compares the processor's name with that which the kernel reports.
func TestVendor(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has the name in /proc/cpuinfo")
	}
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ":")
		if strings.TrimSpace(key) != "vendor_id" {
			continue
		}
		b, d, c := vendor()
		var name []byte
		for _, x := range []uint32{b, d, c} {
			name = binary.LittleEndian.AppendUint32(name, x)
		}
		want := strings.TrimSpace(value)
		if string(name) != want || amd != (want == "AuthenticAMD") {
			t.Errorf("%q, AMD %v: want %q", bytes.TrimSpace(name), amd, want)
		}
		return
	}
	t.Error("/proc/cpuinfo names no vendor")
}

func TestIsAMD(t *testing.T) {
	for name, want := range map[string]bool{
		"AuthenticAMD": true, "GenuineIntel": false, "authenticAMD": false, "AuthentiCAMD": false,
		"AuthenticAMd": false,
	} {
		word := func(i int) uint32 { return binary.LittleEndian.Uint32([]byte(name)[i:]) }
		if got := isAMD(word(0), word(4), word(8)); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

// TestFar: small groups, and all on other processors, go to the first level.
func TestFar(t *testing.T) {
	was := amd
	defer func() { amd = was }()
	for _, amd = range []bool{false, true} {
		if far(10, 2) || far(20, 1) || far(7, 3) != amd || far(2, 11) != amd {
			t.Errorf("AMD %v: %v %v %v %v", amd, far(10, 2), far(20, 1), far(7, 3), far(2, 11))
		}
	}
}

// TestPrefetchGroups: both kinds of hint change nothing, and may go beyond what is mapped.
func TestPrefetchGroups(t *testing.T) {
	was := amd
	defer func() { amd = was }()
	data := [128]byte{1, 127: 2}
	before := data
	ps := [2]unsafe.Pointer{nil, unsafe.Pointer(&data)}
	at := [2]uint32{1<<32 - 1, 0}
	for _, amd = range []bool{false, true} {
		for _, lines := range []uintptr{0, 1, 2, 1000} {
			for n := range uintptr(3) {
				PrefetchEach(&ps[0], n, lines)
				PrefetchAt(unsafe.Pointer(&data), &at[0], n, 128, lines)
			}
		}
	}
	if data != before || ps[1] != unsafe.Pointer(&data) || at != [2]uint32{1<<32 - 1, 0} {
		t.Error("a hint changed something")
	}
}
