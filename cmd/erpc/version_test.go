package main

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/klauspost/cpuid/v2"

	"github.com/userspace-rpc/erpc/kit/cli"
)

// TestVersion: a build describes itself, with all of its information and without.
func TestVersion(t *testing.T) {
	status, out, errOut := runCommand(t, "--version")
	if status != cli.Done || !strings.HasPrefix(out, "erpc ") || errOut != "" ||
		!strings.Contains(out, runtime.Version()) || !strings.Contains(out, runtime.GOARCH) {
		t.Errorf("status %d, %q, %q", status, out, errOut)
	}
	set := func(kv ...string) (list []debug.BuildSetting) {
		for i := 0; i < len(kv); i += 2 {
			list = append(list, debug.BuildSetting{Key: kv[i], Value: kv[i+1]})
		}
		return list
	}
	for want, info := range map[string]debug.BuildInfo{
		"erpc v1.2.3, revision abc of yesterday, modified\n" +
			"go1.26.0, linux/arm64, cgo on, tags invariants, wire versions 2 and 3": {
			GoVersion: "go1.26.0", Main: debug.Module{Version: "v1.2.3"},
			Settings: set("vcs.revision", "abc", "vcs.time", "yesterday", "vcs.modified", "true",
				"GOOS", "linux", "GOARCH", "arm64", "CGO_ENABLED", "1", "-tags", "invariants"),
		},
		"erpc (devel), revision abc\ngo1.26.0, linux/amd64, cgo off, wire versions 2 and 3": {
			GoVersion: "go1.26.0", Settings: set("vcs.revision", "abc", "vcs.modified", "false",
				"GOOS", "linux", "GOARCH", "amd64", "CGO_ENABLED", "0"),
		},
		"erpc (devel), revision unknown\nan unknown Go, unknown/unknown, cgo off, " +
			"wire versions 2 and 3": {},
	} {
		if got := buildText(&info); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestProcessor: the doctor describes a processor of which all facts are known, and one without.
func TestProcessor(t *testing.T) {
	full := processor{aes: true, shared: []string{"0,4", "1,5"}, clock: true, asked: true}
	full.CPUInfo = cpuid.CPUInfo{BrandName: "A  Processor ", ThreadsPerCore: 2, CacheLine: 64}
	full.Cache.L1D, full.Cache.L2, full.Cache.L3 = 32<<10, 1<<20, 33<<20
	mute := processor{asked: true}
	mute.ThreadsPerCore, mute.Cache.L1D, mute.Cache.L2, mute.Cache.L3 = 1, -1, -1, -1
	unasked := mute
	unasked.asked = false
	for _, c := range []struct {
		of   processor
		want []finding
	}{
		{full, []finding{
			{"threads of a core", true, "2; one core each: 0,4  1,5: give loops cores of their own " +
				"with --pin (A Processor)", ""},
			{"caches", true, "L1 32 KiB, L2 1 MiB, L3 33 MiB, lines of 64 B", ""},
			{"AES", true, "yes", "*"}, {"invariant clock", true, "yes", "*"},
		}},
		{mute, []finding{
			{"threads of a core", true, "1", ""}, {"caches", true, "not told by the processor", ""},
			{"AES", false, "no", "*"}, {"invariant clock", false, "no", "*"},
		}},
		{unasked, []finding{
			{"threads of a core", true, "1", ""}, {"caches", true, "not told by the processor", ""},
			{"AES", false, "no", "*"},
		}},
	} {
		got := findProcessor(c.of)
		if len(got) != len(c.want) {
			t.Errorf("%+v, want %+v", got, c.want)
			continue
		}
		for i, f := range got {
			if c.want[i].Mend == "*" && f.Mend != "" {
				f.Mend = "*"
			}
			if f != c.want[i] {
				t.Errorf("%+v, want %+v", f, c.want[i])
			}
		}
	}
}
