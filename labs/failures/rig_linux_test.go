package failures

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/security/sectest"
	"github.com/userspace-rpc/erpc/transport/rawudp/vethtest"
)

const (
	watchingBack = 2500 * time.Millisecond // after a fault, if the server comes back
	spare        = servers + 1             // number of the server that takes the victim's place
)

// rig is one round of a cell: its processes, on this machine's loopback or each on a host.
type rig struct {
	c        cell
	library  string // erpc, grpcerpc or grpc-go
	keep     bool   // grpc-go has its keepalive
	dir      string
	hosts    *vethtest.Switch // nil: loopback
	servers  []*process
	addrs    []string
	client   *process
	launched int
}

// measure runs a cell once. Library is the cell's own, or grpc-go with the same policy and fault.
func measure(t *testing.T, c cell, library string, keep bool) (*sample, error) {
	t.Helper()
	r := &rig{c: c, library: library, keep: keep, dir: t.TempDir()}
	if c.apart() && (library != "grpc-go" || c.fault() == faultGone) {
		r.hosts = vethtest.NewSwitch(t, 1500, servers+1)
	}
	sectest.Files(r.dir, tlsName)
	s, err := r.run()
	for _, p := range append(r.servers, r.client) {
		if p != nil {
			err = errors.Join(err, p.kill())
		}
	}
	if err == nil {
		s.Twice, err = r.twice()
	}
	return s, err
}

func (r *rig) run() (*sample, error) {
	n := servers
	if r.c.lone() {
		n = 1
	}
	for i := range n {
		if err := r.serve(i, r.place(i)); err != nil {
			return nil, err
		}
	}
	var err error
	ro := r.role("client")
	ro.Servers, ro.Keepalive = r.addrs, r.keep
	ro.Named = r.c.fault() == faultReplace
	if r.library == "grpc-go" {
		ro.Client = r.c.policy()
	}
	ro.Listen = r.place(servers)
	if r.c.transport() == shmTransport {
		ro.Listen = ""
	}
	if r.client, err = start(r.within(servers), ro); err != nil {
		return nil, err
	}
	if _, err = r.client.expect("steady"); err != nil {
		return nil, err
	}
	if err = r.client.tell("fault"); err != nil {
		return nil, err
	}
	if _, err = r.client.expect("marked"); err != nil {
		return nil, err
	}
	begun := time.Now()
	if err := r.strike(); err != nil {
		return nil, fmt.Errorf("%s: %w", r.c.fault(), err)
	}
	last := watching
	if r.c.fault() == faultRestart || r.c.fault() == faultReplace {
		last = watchingBack
	}
	watchUntil(begun.Add(last))
	if err := r.client.tell("stop"); err != nil {
		return nil, err
	}
	text, err := r.client.expect("result")
	if err != nil {
		return nil, err
	}
	s := new(sample)
	return s, json.Unmarshal([]byte(text), s)
}

// role is what all processes of the rig have in common.
func (r *rig) role(name string) role {
	return role{Name: name, Library: r.library, Transport: r.c.transport(),
		Security: r.c.security(), Dir: r.dir, Client: r.c.client()}
}

// within has a function run where a server belongs, or behind them all the client.
func (r *rig) within(i int) func(func()) {
	if r.hosts == nil {
		return func(f func()) { f() }
	}
	return r.hosts.Hosts[i].Do
}

// place is an address of a host with any port; in shared memory it is a name.
func (r *rig) place(i int) string {
	if r.c.transport() == shmTransport && r.library != "grpc-go" {
		return fmt.Sprintf("shm:server%d", i)
	}
	ip := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if r.hosts != nil {
		ip = r.hosts.Hosts[i].IP4
	}
	return netip.AddrPortFrom(ip, 0).String()
}

// serve starts a server on a host.
func (r *rig) serve(host int, at string) error {
	ro := r.role("server")
	ro.Listen = at
	ro.Runs = filepath.Join(r.dir, fmt.Sprintf("runs-%d", r.launched))
	r.launched++
	p, err := start(r.within(host), ro)
	if err != nil {
		return err
	}
	r.servers = append(r.servers, p)
	addr, err := p.expect("addr")
	if err != nil {
		return err
	}
	r.addrs = append(r.addrs, addr)
	return nil
}

// victim is the server that meets the fault: with pick_first that is the first one.
const victim = 0

// strike makes the fault.
func (r *rig) strike() error {
	v := r.servers[victim]
	switch r.c.fault() {
	case faultKill:
		return v.kill()
	case faultStop:
		return v.signal(syscall.SIGSTOP)
	case faultGone:
		r.hosts.Hosts[victim].Up(false)
	case faultHang:
		if err := v.tell("hang"); err != nil {
			return err
		}
		_, err := v.expect("done")
		return err
	case faultDrain:
		return v.tell("drain")
	case faultRestart:
		if err := v.kill(); err != nil {
			return err
		}
		return r.serve(victim, r.addrs[victim])
	case faultReplace:
		return r.replace(v)
	}
	return nil
}

// replace kills the victim, starts a server elsewhere, and tells the client.
func (r *rig) replace(v *process) error {
	at := r.place(victim)
	switch {
	case r.c.transport() == shmTransport && r.library != "grpc-go":
		at = r.place(spare) // another name
	case r.c.client() == oneClient: // its name has the same port
		_, port, err := net.SplitHostPort(r.addrs[victim])
		if err != nil {
			return err
		}
		at = net.JoinHostPort("127.0.0.2", port)
	}
	if err := v.kill(); err != nil {
		return err
	}
	n := len(r.addrs)
	if err := r.serve(victim, at); err != nil {
		return err
	}
	list := append(r.addrs[1:n:n], r.addrs[n])
	return r.client.tell("moved " + strings.Join(list, ","))
}

// twice counts calls whose handlers ran more than once, in all servers together.
func (r *rig) twice() (n int, err error) {
	runs := make(map[uint64]int)
	for i := range r.launched {
		b, err := os.ReadFile(filepath.Join(r.dir, fmt.Sprintf("runs-%d", i)))
		if err != nil {
			return 0, err
		}
		for ; len(b) >= idBytes; b = b[idBytes:] {
			id := binary.LittleEndian.Uint64(b)
			if runs[id]++; runs[id] == 2 {
				n++
			}
		}
	}
	return n, nil
}
