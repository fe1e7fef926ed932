package report

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// Machine is where and when something was measured.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Kernel string `json:"kernel,omitempty"`
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	Go     string `json:"go"`
	Commit string `json:"commit,omitempty"` // of the source, with + if it was changed since
	Time   string `json:"time"`             // RFC 3339, UTC
}

// ThisMachine describes the machine that the program runs on.
func ThisMachine() Machine {
	m := Machine{CPU: "unknown", Cores: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Go:     runtime.Version(),
		Commit: commit(), Time: time.Now().UTC().Format(time.RFC3339)}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m.CPU = cpuModel(string(b))
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(b))
	}
	return m
}

// cpuModel reads /proc/cpuinfo; on arm64 it has numbers only.
func cpuModel(info string) string {
	model, impl, part := "", "", ""
	for line := range strings.Lines(info) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "model name":
			model = value
		case "CPU implementer":
			impl = value
		case "CPU part":
			part = value
		}
	}
	switch {
	case model != "":
		return model
	case impl != "":
		return "implementer " + impl + ", part " + part
	}
	return "unknown"
}

// commit asks git; empty if it does not know.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--exclude", "*", "--dirty=+").Output()
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(out))
}
