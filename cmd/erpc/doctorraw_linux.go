package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/userspace-rpc/erpc/cmd/erpc/measure"
	"github.com/userspace-rpc/erpc/transport/rawudp/afxdp"
	"golang.org/x/sys/unix"
)

// findRaw says what a transport below IP lacks here, one finding per need. A transport that
// comes later gets a function like findAfpacket and a line here.
func findRaw() (list []finding) {
	list = append(list, findAfpacket()...)
	list = append(list, findAfxdp()...)
	return append(list, findNamespaces())
}

// findAfpacket names the needs of transport/rawudp/afpacket: only the first is one without which
// it does not run.
func findAfpacket() []finding {
	return []finding{
		findSocket("afpacket: socket", unix.AF_PACKET, mendOf("afpacket")),
		findCaps("afpacket: guard", mendOf("afpacket"),
			"slower, for the kernel looks at each frame as well", mayBPF, unix.CAP_NET_ADMIN, unix.CAP_BPF),
		findTCX("afpacket: tcx, for the guard"),
		findKernel("afpacket: trains", 6, 2, "slower where many packets are in flight"),
	}
}

// findAfxdp names the needs of transport/rawudp/afxdp, which does not run without all of them.
func findAfxdp() []finding {
	return []finding{
		findSocket("afxdp: socket", unix.AF_XDP, mendOf("afxdp")),
		findCaps("afxdp: program", mendOf("afxdp"), "it does not run", mayBPF, unix.CAP_NET_ADMIN,
			unix.CAP_BPF),
		findLocked("afxdp: locked memory"),
		findKernel("afxdp: kernel", 5, 18, "it does not run"),
	}
}

// findLocked says for how many endpoints of afxdp this process may lock memory. The kernel asks no
// more of who has CAP_IPC_LOCK.
func findLocked(name string) finding {
	const each = afxdp.EndpointMemory
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit)
	switch {
	case hasCap(unix.CAP_IPC_LOCK) || err == nil && limit.Cur == unix.RLIM_INFINITY:
		return finding{name, true, "no limit", ""}
	case err != nil:
		return finding{name, false, err.Error(), ""}
	}
	n := limit.Cur / each
	return finding{name, n >= 2,
		fmt.Sprintf("limit of %d KiB, and no CAP_IPC_LOCK: %d endpoint(s) on a link of one queue, %d "+
			"KiB each",
			limit.Cur>>10, n, each>>10),
		fmt.Sprintf("ulimit -l %d for 4 endpoints, times the queues (as root, or in limits.conf), or "+
			"once: %s", 4*each>>10, measure.SetcapFor("afxdp"))}
}

// mendOf says how to get the rights that a transport below IP needs.
func mendOf(transport string) string {
	return "run as root, or once: " + measure.SetcapFor(transport)
}

func findNamespaces() finding {
	return findCaps("network namespaces", "run as root",
		"bench --veth, and bench of afpacket and afxdp without --addr do not run",
		hasCap, unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN)
}

// capNames are the names of the capabilities that are asked for (capabilities(7)).
var capNames = map[int]string{
	unix.CAP_NET_ADMIN: "CAP_NET_ADMIN", unix.CAP_SYS_ADMIN: "CAP_SYS_ADMIN", unix.CAP_BPF: "CAP_BPF",
}

// findCaps asks has for each of the capabilities; without says what happens if one is missing.
func findCaps(name, mend, without string, has func(int) bool, caps ...int) finding {
	var missing []string
	for _, c := range caps {
		if !has(c) {
			missing = append(missing, capNames[c])
		}
	}
	if len(missing) == 0 {
		return finding{name, true, "allowed", ""}
	}
	return finding{name, false, strings.Join(missing, " and ") + " missing: " + without, mend}
}

// mayBPF reports whether this process may use a capability for eBPF, where CAP_SYS_ADMIN
// stands for each other (capabilities(7)).
func mayBPF(c int) bool { return hasCap(c) || hasCap(unix.CAP_SYS_ADMIN) }

// hasCap reports whether a capability is in this thread's effective set.
func hasCap(c int) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&header, &data[0]) != nil {
		return false
	}
	return data[c/32].Effective&(1<<(c%32)) != 0
}

// findTCX asks the kernel for the programs on loopback's ingress; if that is not allowed its
// version has to do.
func findTCX(name string) finding {
	const without = "slower, for the kernel looks at each frame as well"
	if !mayBPF(unix.CAP_NET_ADMIN) || !mayBPF(unix.CAP_BPF) {
		return findKernel(name, 6, 6, without)
	}
	lo, err := net.InterfaceByName("lo")
	if err == nil {
		_, err = link.QueryPrograms(link.QueryOptions{Target: lo.Index, Attach: ebpf.AttachTCXIngress})
	}
	switch {
	case err == nil:
		return finding{name, true, "yes", ""}
	case errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.EINVAL):
		return finding{name, false, "not in this kernel: " + without,
			"Linux 6.6 or newer, with CONFIG_NET_XGRESS and CONFIG_BPF_SYSCALL"}
	}
	return findKernel(name, 6, 6, without)
}

// findKernel compares the kernel's version with the one that a feature needs.
func findKernel(name string, major, minor int, without string) finding {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return finding{name, false, err.Error(), ""}
	}
	release := unix.ByteSliceToString(u.Release[:])
	if hasMajor, hasMinor, ok := kernelVersion(release); ok && (hasMajor > major ||
		hasMajor == major && hasMinor >= minor) {
		return finding{name, true, "Linux " + release, ""}
	}
	return finding{name, false, "Linux " + release + ": " + without,
		fmt.Sprintf("Linux %d.%d or newer", major, minor)}
}

// kernelVersion reads the first two numbers of a release such as "6.18.44-generic" or "6.6-rc1".
func kernelVersion(release string) (major, minor int, ok bool) {
	first, rest, dotted := strings.Cut(release, ".")
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(rest)
	}
	major, err1 := strconv.Atoi(first)
	minor, err2 := strconv.Atoi(rest[:end])
	return major, minor, dotted && err1 == nil && err2 == nil
}
