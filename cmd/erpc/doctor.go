package main

import (
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/internal/hugemem"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/transport/udp"
)

type doctorCmd struct {
	JSON bool `name:"json" help:"Print one JSON object."`
}

// Help is shown by --help.
func (doctorCmd) Help() string {
	return `Examples:
  erpc doctor
  erpc doctor --json

It changes nothing. Lines marked "lacks" cost speed or a transport, not function:
erpc runs on plain UDP anyway.`
}

// finding is the doctor's judgement of one thing.
type finding struct {
	Name  string `json:"name"`
	OK    bool   `json:"ok"`
	Found string `json:"found"`
	Mend  string `json:"mend,omitempty"` // the command or deed that mends it
}

// diagnosis is printed by the doctor with --json.
type diagnosis struct {
	System   string    `json:"system"`
	Findings []finding `json:"findings"`
}

// Run implements the subcommand.
func (c *doctorCmd) Run(e *env) error {
	d := diagnosis{System: runtime.GOOS + "/" + runtime.GOARCH + ", " + runtime.Version()}
	d.Findings = append(d.Findings, findCores(), findClock())
	d.Findings = append(d.Findings, findProcessor(thisProcessor())...)
	d.Findings = append(d.Findings, findCiphers()...)
	d.Findings = append(d.Findings, findUDP(udp.Probe())...)
	d.Findings = append(d.Findings, findHugepages())
	d.Findings = append(d.Findings, findSystem()...)
	if c.JSON {
		return json.NewEncoder(e.out).Encode(d)
	}
	fmt.Fprintln(e.out, d.System)
	t := cli.NewTable(e.out)
	for _, f := range d.Findings {
		mark := "ok"
		if !f.OK {
			mark = "lacks"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", mark, f.Name, f.Found)
		if !f.OK && f.Mend != "" {
			fmt.Fprintf(t, "\t\tmend: %s\n", f.Mend)
		}
	}
	return t.Flush()
}

func findCores() finding {
	n := runtime.GOMAXPROCS(0)
	return finding{"cores", n >= 2, fmt.Sprintf("%d usable", n),
		"client and server need a core each to spin: give the machine 2 cores, or use --wait adaptive"}
}

// findClock measures a reading of the clock: with a slow source it is a system call.
func findClock() finding {
	const readings = 20000
	best := time.Duration(math.MaxInt64)
	for range 5 {
		begin := monotime.Now()
		for range readings {
			monotime.Now()
		}
		best = min(best, monotime.Now().Sub(begin)/readings)
	}
	source := clockSource()
	return finding{"clock", best < 120, fmt.Sprintf("%d ns a reading, source %s", best, source),
		"echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource"}
}

func findUDP(f udp.Features) []finding {
	kernel := "a Linux kernel 5.0 or newer"
	buffers := "sudo sysctl -w net.core.rmem_max=8388608 net.core.wmem_max=8388608"
	const want = 8 << 20
	refused := "nothing"
	if len(f.Refused) > 0 {
		refused = strings.Join(f.Refused, ", ")
	}
	return []finding{
		{"UDP refused", len(f.Refused) == 0, refused,
			"let the sandbox (seccomp) of this process allow it; sockets work without, but slower"},
		{"UDP GSO", f.GSO, fmt.Sprintf("%s, up to %d packets a train", yes(f.GSO), f.MaxSegments),
			kernel},
		{"UDP GRO", f.GRO, yes(f.GRO), kernel},
		{"sendmmsg, recvmmsg", f.MultiCall, yes(f.MultiCall), kernel},
		{"ECN marks", f.ECN, yes(f.ECN), kernel},
		{"IPv6", f.IPv6, yes(f.IPv6), "sudo sysctl -w net.ipv6.conf.all.disable_ipv6=0"},
		{"receive buffer", f.RecvBuffer >= want,
			fmt.Sprintf("%s of %s asked for", cli.BytesText(f.RecvBuffer), cli.BytesText(want)), buffers},
		{"send buffer", f.SendBuffer >= want,
			fmt.Sprintf("%s of %s asked for", cli.BytesText(f.SendBuffer), cli.BytesText(want)), buffers},
	}
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func findHugepages() finding {
	free, total, size := hugemem.Available()
	return finding{"hugepages", free > 0,
		fmt.Sprintf("%d of %d free, %s each", free, total, cli.BytesText(size)),
		"sudo sysctl -w vm.nr_hugepages=64"}
}
