package main

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// readWord returns the contents of a small file, or "".
func readWord(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func clockSource() string {
	s := readWord("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	if s == "" {
		return "unknown"
	}
	return s
}

// findSystem looks at what only Linux has.
func findSystem() []finding {
	list := append([]finding{findGovernor()}, findRaw()...)
	return append(list, findVerbs()...)
}

func findGovernor() finding {
	g := readWord("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
	f := finding{"CPU frequency", g == "" || g == "performance", g,
		"sudo cpupower frequency-set -g performance"}
	if g == "" {
		f.Found = "not controlled from here"
	}
	return f
}

// findSocket tries to open a raw socket of a family.
func findSocket(name string, family int, mend string) finding {
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	switch {
	case err == nil:
		_ = unix.Close(fd)
		return finding{name, true, "yes", ""}
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES):
		return finding{name, false, "CAP_NET_RAW missing: this user may not open such sockets", mend}
	case errors.Is(err, unix.EAFNOSUPPORT):
		return finding{name, false, "not in this kernel", "a kernel that has such sockets"}
	}
	return finding{name, false, err.Error(), mend}
}

// sharedCores returns the processors that are threads of one core, a text for each such core.
func sharedCores() (list []string) {
	files, _ := filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list")
	for _, f := range files {
		s := readWord(f)
		if strings.ContainsAny(s, ",-") && !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	slices.Sort(list)
	return list
}

// invariantClock reports whether the processor's counter runs at one rate, always; ok is false if
// the kernel does not say.
func invariantClock() (is, ok bool) {
	if runtime.GOARCH == "arm64" {
		return true, true // Arm's generic timer
	}
	b, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(b)) {
		if name, flags, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "flags" {
			all := strings.Fields(flags)
			return slices.Contains(all, "constant_tsc") && slices.Contains(all, "nonstop_tsc"), true
		}
	}
	return false, false
}
