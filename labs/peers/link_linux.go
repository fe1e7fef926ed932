package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// vethLink is a veth pair of MTU 1500 between two network namespaces without names. They go with
// it.
type vethLink struct {
	client, server *os.File
	drops          []link.Link
}

const (
	linkName     = "veth0" // of both interfaces
	clientOfLink = "10.72.0.1"
	serverOfLink = "10.72.0.2"
	macsOfLink   = "02:72:00:00:00:0"

	// congestionFile is of the namespace of the thread that reads or writes it.
	congestionFile = "/proc/sys/net/ipv4/tcp_congestion_control"
)

// newLink makes a link.
func newLink(m linkMode) (l *vethLink, err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("network namespaces need root")
	}
	for _, tool := range []string{"ip", "ethtool"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("%s is missing: apt-get install iproute2 ethtool", tool)
		}
	}
	l = &vethLink{}
	defer func() {
		if err != nil {
			err = fmt.Errorf("a veth pair: %w", errors.Join(err, l.close()))
		}
	}()
	for _, ns := range []**os.File{&l.client, &l.server} {
		if *ns, err = newNet(); err != nil {
			return l, err
		}
	}
	err = runIn(l.client, "ip", "link", "add", linkName, "address", macsOfLink+"1", "mtu", "1500",
		"type", "veth", "peer", "name", linkName, "address", macsOfLink+"2", "mtu", "1500",
		"netns", fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), l.server.Fd()))
	if err != nil {
		return l, err
	}
	if err := l.configure(l.client, clientOfLink, serverOfLink, "2", m); err != nil {
		return l, err
	}
	return l, l.configure(l.server, serverOfLink, clientOfLink, "1", m)
}

// configure brings an end up. Neither side has to ask for the other's MAC address, since the
// question may be lost.
func (l *vethLink) configure(ns *os.File, own, other, mac string, m linkMode) error {
	for _, line := range []string{
		"ip addr add " + own + "/24 dev " + linkName, "ip link set lo up",
		"ip link set " + linkName + " up",
		"ip neigh replace " + other + " lladdr " + macsOfLink + mac + " dev " + linkName +
			" nud permanent",
	} {
		if err := runIn(ns, strings.Fields(line)...); err != nil {
			return err
		}
	}
	if m.features != "" {
		args := append([]string{"ethtool", "-K", linkName}, strings.Fields(m.features)...)
		if err := runIn(ns, args...); err != nil {
			return err
		}
	}
	if m.loss == 0 {
		return nil
	}
	return inNet(ns, func() error {
		drop, err := dropping(m.loss)
		if err == nil {
			l.drops = append(l.drops, drop)
		}
		return err
	})
}

// dropping attaches a program to the link's end in the thread's namespace, which drops a share of
// the packets that come. It sees packets as they are on the wire, before the kernel joins any
// (XDP), and so the other end's kernel cuts its trains before they leave.
func dropping(share float64) (link.Link, error) {
	dev, err := net.InterfaceByName(linkName)
	if err != nil {
		return nil, err
	}
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "lose", Type: ebpf.XDP,
		License: "Apache-2.0", Instructions: asm.Instructions{
			asm.FnGetPrandomU32.Call(),
			asm.LoadImm(asm.R1, int64(share*(1<<32)), asm.DWord),
			asm.JLT.Reg(asm.R0, asm.R1, "drop"),
			asm.Mov.Imm(asm.R0, 2), // XDP_PASS
			asm.Return(),
			asm.Mov.Imm(asm.R0, 1).WithSymbol("drop"), // XDP_DROP
			asm.Return(),
		}})
	if err != nil {
		return nil, fmt.Errorf("a program that drops packets: %w", err)
	}
	defer func() { _ = program.Close() }() // the link has it
	return link.AttachXDP(link.XDPOptions{Program: program, Interface: dev.Index,
		Flags: link.XDPDriverMode})
}

func (l *vethLink) close() (err error) {
	for _, d := range l.drops {
		err = errors.Join(err, d.Close())
	}
	for _, ns := range []*os.File{l.client, l.server} {
		if ns != nil {
			err = errors.Join(err, ns.Close())
		}
	}
	return err
}

// newNet makes a network namespace, which lives as long as the file is open or a process in it.
func newNet() (ns *os.File, err error) {
	err = elsewhere(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return os.NewSyscallError("unshare", err)
		}
		if ns, err = os.Open("/proc/thread-self/ns/net"); err != nil {
			return err
		}
		return controlTCP()
	})
	return ns, err
}

// controlTCP chooses TCP's congestion control in the thread's namespace: Linux's default, or what
// comes next to it where the machine allows namespaces no other. BBR, the default of some, halves
// the rate of a TCP on such links which sleeps between messages.
func controlTCP() (err error) {
	for _, name := range []string{"cubic", "reno"} {
		if err = os.WriteFile(congestionFile, []byte(name), 0); err == nil {
			return nil
		}
	}
	return err
}

// inNet runs work in a network namespace, or in this process's if there is none. Processes that it
// starts stay there.
func inNet(ns *os.File, work func() error) error {
	if ns == nil {
		return work()
	}
	return elsewhere(func() error {
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return os.NewSyscallError("setns", err)
		}
		return work()
	})
}

// elsewhere runs work, which may change the thread's network namespace, and changes it back.
func elsewhere(work func() error) error {
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer func() { _ = home.Close() }() // it was read only
	err = work()
	if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
		return errors.Join(err, back) // still locked: nothing else may run in this thread
	}
	runtime.UnlockOSThread()
	return err
}

// runIn runs a command in a network namespace.
func runIn(ns *os.File, args ...string) error {
	c := exec.Command(args[0], args[1:]...)
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	err := start(c, spot{core: -1, net: ns})
	if err == nil {
		err = c.Wait()
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, lastLine(&said))
	}
	return nil
}
