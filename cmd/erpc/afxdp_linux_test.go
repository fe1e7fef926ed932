package main

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/userspace-rpc/erpc/cmd/erpc/measure"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/transport/rawudp/vethtest"
)

// Where a program is on a link (linux/if_link.h, XDP_ATTACHED_DRV and XDP_ATTACHED_SKB).
const (
	inDriver = 1
	inStack  = 2
)

// TestXDPModes: the program is where the flag says.
func TestXDPModes(t *testing.T) {
	for mode, want := range map[string]uint32{"auto": inDriver, "native": inDriver,
		"generic": inStack} {
		p := vethtest.New(t, 1500)
		var server, ping *process
		p.B.Do(func() {
			server = start(t, "server --transport afxdp --iface "+p.B.Name+" --xdp-mode "+mode)
		})
		waitFor(t, server.out, "serving on")
		if x := p.B.Link().Attrs().Xdp; x == nil || x.AttachMode != want {
			t.Errorf("%s: on the link: %+v, want mode %d", mode, x, want)
		}
		p.A.Do(func() {
			ping = start(t, fmt.Sprintf("ping %v:31850 --transport afxdp --count 1 --xdp-mode %s",
				p.B.IP4, mode))
		})
		waitFor(t, ping.out, "1 sent, 1 answered")
		if err := ping.cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// TestXDPWithoutDriver: a link whose driver has no XDP gets the generic mode, and the user is told;
// if that is not wanted it is an error.
func TestXDPWithoutDriver(t *testing.T) {
	p := vethtest.New(t, 1500)
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "dummy0"
	dummy := &netlink.Dummy{LinkAttrs: attrs}
	for _, err := range []error{
		p.B.Handle.LinkAdd(dummy),
		p.B.Handle.AddrAdd(dummy,
			&netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(10, 77, 0, 1), Mask: net.CIDRMask(24, 32)}}),
		p.B.Handle.LinkSetUp(dummy),
	} {
		if errors.Is(err, errors.ErrUnsupported) {
			t.Skip(err) // not every kernel has such links
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for line, want := range map[string]string{
		"server --transport afxdp --iface dummy0": "in generic mode, which makes " +
			"it slower",
		"server --transport afxdp --iface dummy0 --xdp-mode native": "use a smaller one, or " +
			"--xdp-mode generic",
	} {
		var server *process
		p.B.Do(func() { server = start(t, line) })
		waitFor(t, server.errLines, want)
		if strings.HasSuffix(line, "native") {
			if err := server.cmd.Wait(); err == nil {
				t.Errorf("erpc %s runs", line)
			}
			continue
		}
		if _, err := server.interrupt(t); err != nil {
			t.Errorf("erpc %s: %v", line, err)
		}
	}
}

// TestLinkBusy: the threads of a process share a link, and another process is told so.
func TestLinkBusy(t *testing.T) {
	p := vethtest.New(t, 1500)
	var server, other *process
	p.B.Do(func() {
		server = start(t, "server --json --transport afxdp --threads 3 --iface "+p.B.Name)
	})
	var ready measure.ReadyLine
	decodeOne(t, waitFor(t, server.out, "ready"), &ready)
	if len(ready.Addrs) != 3 {
		t.Errorf("serves on %v, want 3 addresses", ready.Addrs)
	}
	p.B.Do(func() { other = start(t, "server --transport afxdp --addr :0 --iface "+p.B.Name) })
	waitFor(t, other.errLines, "one process at a time has a link")
	if err := other.cmd.Wait(); err == nil {
		t.Error("two processes on a link")
	}
	for _, addr := range ready.Addrs {
		var ping *process
		p.A.Do(func() { ping = start(t, "ping "+addr+" --transport udp --count 1") })
		waitFor(t, ping.out, "1 sent, 1 answered")
		if err := ping.cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// TestServersOnOneLink: a comparison that needs several server processes on the link says that it
// cannot be.
func TestServersOnOneLink(t *testing.T) {
	needsRoot(t)
	status, _, errOut := runCommand(t, "bench rate --versus dcqcn --transport afxdp --duration 10ms")
	if status != cli.Usage || !strings.Contains(errOut, "one at a time has a link of afxdp") {
		t.Errorf("status %d, err %q", status, errOut)
	}
	nothingLeft(t)
}
