package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/userspace-rpc/erpc/internal/verbs"
	"github.com/userspace-rpc/erpc/kit/cli"
	"golang.org/x/sys/unix"
)

// udMemory is locked by an endpoint of transport ud with its default rings, in bytes.
const udMemory = 20 << 20

// findVerbs looks at what transport ud needs: the library, devices, and memory that may be locked.
func findVerbs() []finding {
	library := finding{Name: "ud: libibverbs", OK: true, Found: "yes"}
	if err := verbs.Available(); err != nil {
		library.OK, library.Found = false, strings.TrimPrefix(err.Error(), "verbs: ")
		if missing, ok := errors.AsType[*verbs.MissingError](err); ok {
			library.Found, library.Mend = missing.What, missing.Mend
		}
	}
	return []finding{library, findDevices(), findMemlock()}
}

// findDevices lists the RDMA devices, with the library in full, else as the kernel names them.
func findDevices() finding {
	f := finding{Name: "ud: RDMA devices", Found: "none",
		Mend: "an RDMA NIC; to try without: sudo modprobe rdma_rxe && sudo rdma link add rxe0 type rxe " +
			"netdev eth0"}
	var ports []string
	if names, err := verbs.Devices(); err == nil {
		for _, name := range names {
			ports = append(ports, describeDevice(name, &f.OK)...)
		}
	} else if entries, err := os.ReadDir("/sys/class/infiniband"); err == nil {
		for _, e := range entries {
			f.OK = true
			ports = append(ports, e.Name())
		}
	}
	if len(ports) > 0 {
		f.Found = strings.Join(ports, "; ")
		f.Mend = "bring a port up: sudo ip link set IFACE up, or connect the cable; inside a container " +
			"pass /dev/infiniband through"
	}
	return f
}

// describeDevice says in a line for each port of a device what it is. active is set if one can be
// used.
func describeDevice(name string, active *bool) (lines []string) {
	d, err := verbs.Open(name)
	if err != nil {
		return []string{name + ": " + cli.OneLine(err)}
	}
	defer d.Close()
	a, err := d.Attr()
	if err != nil {
		return []string{name + ": " + cli.OneLine(err)}
	}
	for port := 1; port <= int(a.Ports); port++ {
		p, err := d.Port(port)
		if err != nil {
			lines = append(lines, fmt.Sprintf("%s/%d: %s", name, port, cli.OneLine(err)))
			continue
		}
		if p.State == verbs.PortActive {
			*active = true
		}
		line := fmt.Sprintf("%s/%d %v %v MTU %d", name, port, p.LinkLayer, p.State, p.ActiveMTU)
		gids, _ := d.GIDs(port)
		for _, g := range gids {
			if g.GID.Is4() || p.LinkLayer == verbs.InfiniBand {
				line += fmt.Sprintf(" GID[%d] %v", g.Index, g.GID)
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// findMemlock looks at the limit on locked memory, which does not hold for root.
func findMemlock() finding {
	f := finding{Name: "ud: locked memory",
		Mend: "ulimit -l unlimited (limits.conf: memlock; systemd: LimitMEMLOCK=infinity; docker: " +
			"--ulimit memlock=-1)"}
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &r); err != nil {
		f.Found = err.Error()
		return f
	}
	switch {
	case os.Geteuid() == 0:
		f.OK, f.Found = true, "not limited for root"
	case r.Cur == unix.RLIM_INFINITY:
		f.OK, f.Found = true, "not limited"
	default:
		f.OK = r.Cur >= udMemory
		f.Found = fmt.Sprintf("%s, an endpoint takes %s", cli.BytesText(int(min(r.Cur, 1<<50))),
			cli.BytesText(udMemory))
	}
	return f
}
