package main

import (
	"fmt"
	"strings"

	"github.com/klauspost/cpuid/v2"
	"github.com/userspace-rpc/erpc/kit/cli"
)

// processor holds the facts about the machine's processor that the doctor prints.
type processor struct {
	cpuid.CPUInfo
	aes    bool     // it has instructions for AES
	shared []string // processors of the system that are threads of one core, as "0,4"; nil if none
	clock  bool     // its time stamp counter runs at one rate, also while the core sleeps
	asked  bool     // whether the clock could be looked at
}

// thisProcessor looks at the processor under this program.
func thisProcessor() processor {
	p := processor{
		CPUInfo: cpuid.CPU, shared: sharedCores(),
		aes: cpuid.CPU.Has(cpuid.AESNI) || cpuid.CPU.Has(cpuid.AESARM),
	}
	p.clock, p.asked = invariantClock()
	return p
}

// findProcessor reads the facts about the processor that matter to event loops.
func findProcessor(p processor) []finding {
	list := []finding{p.findThreads(), p.findCaches(), {
		"AES", p.aes, yes(p.aes),
		"a processor with instructions for AES, or a virtual machine that does not hide them",
	}}
	if p.asked {
		list = append(list, finding{
			"invariant clock", p.clock, yes(p.clock),
			"a virtual machine that shows the processor's counter (QEMU: -cpu host,+invtsc)",
		})
	}
	return list
}

// findThreads says which processors of the system are one core: two loops that spin there get half
// of it each.
func (p *processor) findThreads() finding {
	f := finding{Name: "threads of a core", OK: true, Found: "1"}
	if p.ThreadsPerCore > 1 {
		f.Found = fmt.Sprint(p.ThreadsPerCore)
	}
	if len(p.shared) > 0 {
		f.Found = fmt.Sprintf("%d; one core each: %s: give loops cores of their own with --pin",
			max(p.ThreadsPerCore, 2), strings.Join(p.shared, "  "))
	}
	if p.BrandName != "" {
		f.Found += " (" + strings.Join(strings.Fields(p.BrandName), " ") + ")"
	}
	return f
}

func (p *processor) findCaches() finding {
	var parts []string
	for _, c := range []struct {
		name string
		size int
	}{{"L1", p.Cache.L1D}, {"L2", p.Cache.L2}, {"L3", p.Cache.L3}} {
		if c.size > 0 {
			parts = append(parts, c.name+" "+cli.BytesText(c.size))
		}
	}
	if p.CacheLine > 0 {
		parts = append(parts, "lines of "+cli.BytesText(p.CacheLine))
	}
	if len(parts) == 0 {
		parts = []string{"not told by the processor"}
	}
	return finding{"caches", true, strings.Join(parts, ", "), ""}
}
