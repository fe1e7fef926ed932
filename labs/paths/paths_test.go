package main

import (
	"encoding/binary"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// reports is how many public reports the lab repeats; cases name them by number.
const reports = 39

// TestTable: every report has a case, every name is its own, and each case is tried, void, or held
// by tests that exist.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	rows := map[int]bool{}
	for _, group := range allCases {
		for _, c := range group {
			if seen[c.name] {
				t.Errorf("two cases are named %q", c.name)
			}
			seen[c.name] = true
			if c.what == "" || c.group == "" {
				t.Errorf("%s: no group, or no word of what it is", c.name)
			}
			if (c.try != nil) == (c.void != "" || c.test != "") {
				t.Errorf("%s: want one of a trial, a reason and a test", c.name)
			}
			for r := range strings.SplitSeq(c.rows, ",") {
				if n, err := strconv.Atoi(r); err == nil {
					rows[n] = true
				} else if r != "" {
					t.Errorf("%s: report %q", c.name, r)
				}
			}
			for at := range strings.SplitSeq(c.test, ", ") {
				if c.test != "" && !exists(t, at) {
					t.Errorf("%s: there is no test %s", c.name, at)
				}
			}
		}
	}
	for n := 1; n <= reports; n++ {
		if !rows[n] {
			t.Errorf("no case repeats report %d", n)
		}
	}
}

// exists reports whether a test stands in a folder: "FOLDER: TestName".
func exists(t *testing.T, at string) bool {
	folder, name, ok := strings.Cut(at, ": ")
	if !ok {
		t.Errorf("want FOLDER: NAME, got %q", at)
		return false
	}
	files, err := filepath.Glob(filepath.Join("..", "..", folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return regexp.MustCompile(`(?m)^func ` + name + `\(`).Match(b)
	})
}

func TestChoose(t *testing.T) {
	all, err := choose("", false)
	if err != nil || len(all) < 60 {
		t.Fatalf("%d cases, %v", len(all), err)
	}
	ci, err := choose("", true)
	if err != nil || len(ci) == 0 || len(ci) >= len(all) {
		t.Errorf("%d cases for CI, %v", len(ci), err)
	}
	some, err := choose("names,pod-replaced", false)
	if err != nil || len(some) < 5 || some[0].name != "pod-replaced" {
		t.Errorf("%d cases, %v", len(some), err)
	}
	if _, err := choose("no-such-case", false); err == nil {
		t.Error("a case that is not there was chosen")
	}
}

// TestMerge: the median of times, the worst of counts, and a bar on it.
func TestMerge(t *testing.T) {
	turn := func(ms, failed, answered float64) []measure {
		return []measure{{Name: "pause", Value: ms, Unit: "ms", Bar: 100},
			{Name: "failed", Value: failed}, {Name: "answered", Value: answered, Bar: 1, Least: true}}
	}
	got := merge([][]measure{turn(900, 0, 5), turn(50, 2, 0), turn(60, 0, 7)})
	for i, want := range []struct {
		value  float64
		missed bool
	}{{60, false}, {2, true}, {0, true}} {
		if got[i].Value != want.value || got[i].Missed != want.missed {
			t.Errorf("%+v, want %+v", got[i], want)
		}
	}
}

// TestTooLong: the messages have the checksums, addresses and MTU that a kernel looks at.
func TestTooLong(t *testing.T) {
	v4 := make([]byte, 1500)
	v4[0] = 0x45
	copy(v4[12:], net.IPv4(10, 71, 1, 1).To4())
	m := tooLong(v4, 1280)
	if fold(sum(m[:20], 0)) != 0xffff || fold(sum(m[20:], 0)) != 0xffff {
		t.Error("a checksum of the IPv4 message is wrong")
	}
	if m[20] != 3 || m[21] != 4 || binary.BigEndian.Uint16(m[26:]) != 1280 ||
		!net.IP(m[16:20]).Equal(net.IPv4(10, 71, 1, 1)) || len(m) > 576 {
		t.Errorf("%d bytes: % x", len(m), m[:28])
	}
	v6 := make([]byte, 1500)
	v6[0] = 0x60
	copy(v6[8:], net.ParseIP(client6))
	m = tooLong(v6, 1280)
	pseudo := sum(m[8:40], uint32(len(m)-40)+58)
	if fold(sum(m[40:], pseudo)) != 0xffff {
		t.Error("the checksum of the IPv6 message is wrong")
	}
	if m[40] != 2 || binary.BigEndian.Uint32(m[44:]) != 1280 || len(m) > 1280 ||
		!net.IP(m[24:40]).Equal(net.ParseIP(client6)) {
		t.Errorf("%d bytes: % x", len(m), m[:48])
	}
}

// TestRefusing: each jump of the filter ends inside it, at a test or a verdict.
func TestRefusing(t *testing.T) {
	prog, err := refusing([]string{"ppoll", "setsockopt:1=17:2=103", "socket:0=10"}, errnos["EPERM"])
	if err != nil || len(prog) != 3+7+5+1 {
		t.Fatalf("%d instructions, %v", len(prog), err)
	}
	for i, ins := range prog {
		if to := i + 1 + int(ins.Jf); ins.Jf > 0 && to >= len(prog) {
			t.Errorf("instruction %d jumps to %d", i, to)
		}
	}
	for _, bad := range []string{"fork", "socket:x=1", "socket:0=y"} {
		if _, err := refusing([]string{bad}, errnos["EPERM"]); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
