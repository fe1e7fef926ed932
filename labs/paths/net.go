package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Addresses of the topology. The client's link is net 1 and the server's net 2.
const (
	client4, router1, server4 = "10.71.1.1", "10.71.1.254", "10.71.2.1"
	client6, server6          = "fd71:1::1", "fd71:2::1"
	router2                   = "10.71.2.254"
	port                      = "31850"
)

// host is a machine of the lab: a namespace of the network, and one of mounts so that it has names
// of its own. It lives as long as its process, which ends with this one.
type host struct {
	name  string
	dir   string // for files
	hold  *exec.Cmd
	stdin io.Closer
}

func newHost(name, dir string) (*host, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	h := &host{name: name, dir: dir, hold: exec.Command(self, "hold")}
	h.hold.SysProcAttr = &syscall.SysProcAttr{
		Unshareflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if h.stdin, err = h.hold.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := h.hold.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := h.hold.Start(); err != nil {
		return nil, fmt.Errorf("a network namespace: %w", err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		h.close()
		return nil, fmt.Errorf("a network namespace: %w", err)
	}
	return h, h.sh("ip link set lo up; for f in all default; do" +
		" echo 0 >/proc/sys/net/ipv4/conf/$f/rp_filter;" +
		" echo 0 >/proc/sys/net/ipv6/conf/$f/accept_dad; done")
}

// hold is the process that keeps a host alive until its standard input ends.
func hold() int {
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

func (h *host) close() {
	_ = h.stdin.Close()
	_ = h.hold.Wait()
}

func (h *host) pid() string { return strconv.Itoa(h.hold.Process.Pid) }

// cmd is a command inside the host. It ends with this process.
func (h *host) cmd(args ...string) *exec.Cmd {
	c := exec.Command("nsenter", append([]string{"-t", h.pid(), "-n", "-m", "--"}, args...)...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return c
}

// run runs a command inside the host and returns what it printed.
func (h *host) run(args ...string) (string, error) {
	c := h.cmd(args...)
	var out, said bytes.Buffer
	c.Stdout, c.Stderr = &out, &said
	if err := c.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %s: %w: %s", h.name, strings.Join(args, " "), err,
			strings.TrimSpace(said.String()))
	}
	return out.String(), nil
}

// sh runs lines of the shell inside the host, up to the first that fails.
func (h *host) sh(format string, args ...any) error {
	_, err := h.run("sh", "-ec", fmt.Sprintf(format, args...))
	return err
}

// names gives the host its own /etc/hosts.
func (h *host) names(text string) error {
	file := filepath.Join(h.dir, h.name+".hosts")
	text = "127.0.0.1 localhost\n::1 localhost\n" + text
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return err
	}
	return h.sh("mount --bind %s /etc/hosts", file)
}

// nft loads rules of nftables inside the host. What follows a block may stand in its line.
func (h *host) nft(rules string) error {
	c := h.cmd("nft", "-f", "-")
	c.Stdin = strings.NewReader(strings.ReplaceAll(rules, "}", "}\n"))
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: nft: %w: %s", h.name, err, bytes.TrimSpace(out))
	}
	return nil
}

// topology is client, router and server, each a host. The router's links are c and s, those of the
// others eth0.
type topology struct{ client, router, server *host }

func newTopology(dir string) (t *topology, err error) {
	t = &topology{}
	for _, h := range []struct {
		name string
		to   **host
	}{{"client", &t.client}, {"router", &t.router}, {"server", &t.server}} {
		if *h.to, err = newHost(h.name, dir); err != nil {
			return t, err
		}
	}
	if err := t.link(t.client, "c", 1); err != nil {
		return t, err
	}
	if err := t.link(t.server, "s", 2); err != nil {
		return t, err
	}
	return t, t.router.sh("echo 1 >/proc/sys/net/ipv4/ip_forward;" +
		" echo 1 >/proc/sys/net/ipv6/conf/all/forwarding")
}

// link joins a host with the router by a link of 1500 bytes. Both know each other's MAC address, or
// the first packets over IPv6 would wait for a second.
func (t *topology) link(h *host, name string, net int) error {
	if err := t.router.sh("ip link add %s address 02:71:00:00:%02d:fe type veth"+
		" peer name eth0 address 02:71:00:00:%02d:01 netns %s;"+
		" ip addr add 10.71.%d.254/24 dev %s; ip addr add fd71:%d::fe/64 dev %s nodad;"+
		" ip link set %s up",
		name, net, net, h.pid(), net, name, net, name, name); err != nil {
		return err
	}
	if err := h.sh("ip addr add 10.71.%d.1/24 dev eth0; ip addr add fd71:%d::1/64 dev eth0 nodad;"+
		" ip link set eth0 up;"+
		" ip route add default via 10.71.%d.254; ip -6 route add default via fd71:%d::fe;"+
		" ip neigh replace fd71:%d::fe lladdr 02:71:00:00:%02d:fe dev eth0 nud permanent",
		net, net, net, net, net, net); err != nil {
		return err
	}
	return t.router.sh("ip neigh replace fd71:%d::1 lladdr 02:71:00:00:%02d:01 dev %s nud permanent",
		net, net, name)
}

func (t *topology) close() {
	for _, h := range []*host{t.client, t.router, t.server} {
		if h != nil && h.stdin != nil {
			h.close()
		}
	}
}

// await waits until a link of the router carries packets again.
func (t *topology) await(dev string, h *host) error {
	return t.router.sh("until ip -br link show %s | grep -qw UP; do sleep 0.01; done;"+
		" until nsenter -t %s -n ip -br link show eth0 | grep -qw UP; do sleep 0.01; done", dev, h.pid())
}

// shape limits both of the router's links by token buckets, with a queue of so many bytes each.
func (t *topology) shape(mbit float64, queue int) error {
	burst := max(3100, int(mbit*1e6/8/250)) // 4 ms, since timers are coarse
	for _, dev := range []string{"c", "s"} {
		if err := t.router.sh("tc qdisc replace dev %s root tbf rate %dbit burst %d limit %d",
			dev, int64(mbit*1e6), burst, queue); err != nil {
			return err
		}
	}
	return nil
}
