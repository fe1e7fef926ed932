package main

import (
	"errors"
	"os"
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
	f := finding{"CPU frequency", g == "" || g == "performance", g, "sudo cpupower frequency-set -g performance"}
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
