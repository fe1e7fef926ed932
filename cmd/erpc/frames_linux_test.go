package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/userspace-rpc/erpc/cmd/erpc/measure"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/transport/rawudp/vethtest"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// eventually is how long a test waits for what must come.
const eventually = 4 * time.Second

// await calls ok until it is true.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(eventually); !ok(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// programs returns what is attached to a side's interface: tcx programs, XDP, queueing disciplines
// that hold filters.
func programs(t *testing.T, s *vethtest.Side) (list []string) {
	t.Helper()
	attrs := s.Link().Attrs()
	s.Do(func() {
		for _, at := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
			got, err := link.QueryPrograms(link.QueryOptions{Target: attrs.Index, Attach: at})
			if err != nil {
				t.Fatal(err)
			}
			for range got.Programs {
				list = append(list, at.String())
			}
		}
	})
	if attrs.Xdp != nil && attrs.Xdp.Attached {
		list = append(list, "XDP")
	}
	qdiscs, err := s.Handle.QdiscList(s.Link())
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range qdiscs {
		if kind := q.Type(); kind == "clsact" || kind == "ingress" {
			list = append(list, kind)
		}
	}
	return list
}

// onLink holds the objects of each transport on its link.
var onLink = map[string]string{"afpacket": ebpf.AttachTCXIngress.String(),
	"afxdp": "XDP", "udp": ""}

// TestAcrossNamespaces runs server and ping as processes on two machines, so to speak: both over
// frames, and each with kernel UDP on the other side. Nothing stays on the link of a server that
// was killed.
func TestAcrossNamespaces(t *testing.T) {
	type pair struct{ server, client string }
	for i, c := range some(2,
		pair{"afpacket", "afpacket"}, pair{"afpacket", "udp"}, pair{"udp", "afpacket"},
		pair{"afxdp", "afpacket"}, pair{"afxdp", "afxdp"}, pair{"afxdp", "udp"},
		pair{"udp", "afxdp"}, pair{"afpacket", "afxdp"},
	) {
		for _, v6 := range []bool{false, true} {
			if testing.Short() && v6 != (i%2 == 0) {
				continue
			}
			t.Run(fmt.Sprintf("%s to %s IPv6 %v", c.client, c.server, v6), func(t *testing.T) {
				p := vethtest.New(t, 1500)
				ip := p.B.IP4
				if v6 {
					ip = p.B.IP6
				}
				var server, ping *process
				p.B.Do(func() {
					server = start(t, fmt.Sprintf("server --json --transport %s --addr [%v]:0", c.server, ip))
				})
				var ready measure.ReadyLine
				decodeOne(t, waitFor(t, server.out, "ready"), &ready)
				if got := strings.Join(programs(t, p.B), ", "); got != onLink[c.server] {
					t.Errorf("on the server's link: %q, want %q", got, onLink[c.server])
				}
				p.A.Do(func() {
					ping = start(t, fmt.Sprintf(
						"ping %s --json --transport %s --count 3 --interval 1ms --size 100000", ready.Addr, c.client))
				})
				out := waitFor(t, ping.out, "received")
				var r measure.PingResult
				decodeOne(t, out, &r)
				if err := ping.cmd.Wait(); err != nil || r.Sent != 3 || r.Received != 3 ||
					r.Transport != c.client {
					t.Errorf("ping ended with %v, %+v", err, r)
				}
				if err := server.cmd.Process.Signal(unix.SIGKILL); err != nil {
					t.Fatal(err)
				}
				_ = server.cmd.Wait()
				await(t, "a program outlives its process", func() bool { return len(programs(t, p.B)) == 0 })
				if got := programs(t, p.A); len(got) != 0 {
					t.Errorf("on the client's link: %v", got)
				}
			})
		}
	}
}

// TestInterface: a server and a ping that name the interface, not its address.
func TestInterface(t *testing.T) {
	for _, tr := range []string{"afpacket", "afxdp"} {
		t.Run(tr, func(t *testing.T) {
			p := vethtest.New(t, 1500)
			var server, ping *process
			p.B.Do(func() { server = start(t, "server --json --transport "+tr+" --iface "+p.B.Name) })
			var ready measure.ReadyLine
			decodeOne(t, waitFor(t, server.out, "ready"), &ready)
			if want := p.B.IP4.String() + ":31850"; ready.Addr != want {
				t.Fatalf("serves on %s, want %s", ready.Addr, want)
			}
			p.A.Do(func() {
				ping = start(t, "ping "+ready.Addr+" --transport "+tr+" --count 1 --iface "+p.A.Name)
			})
			waitFor(t, ping.out, "1 sent, 1 answered")
			if err := ping.cmd.Wait(); err != nil {
				t.Error(err)
			}
			p.B.Do(func() { ping = start(t, "ping "+ready.Addr+" --transport "+tr+" --count 1") })
			waitFor(t, ping.errLines, "frames to it never leave it")
			if err := ping.cmd.Wait(); err == nil {
				t.Error("a ping of its own host succeeded")
			}
		})
	}
}

// needsRoot skips where namespaces cannot be made; where they must be it fails.
func needsRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("a network namespace needs root")
	}
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	made, err := netns.New()
	if err == nil {
		err = errors.Join(netns.Set(home), made.Close())
	}
	runtime.UnlockOSThread()
	if err = errors.Join(err, home.Close()); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// homeNetwork is where this process began.
var homeNetwork, _ = os.Readlink("/proc/self/ns/net")

// elsewhereNow returns what of this process is in another network namespace, or holds one, or is a
// server process.
func elsewhereNow(t *testing.T) (list []string) {
	t.Helper()
	for _, pattern := range []string{"/proc/self/task/*/ns/net", "/proc/self/fd/*"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if to, err := os.Readlink(name); err == nil && strings.HasPrefix(to, "net:") &&
				to != homeNetwork {
				list = append(list, name+" -> "+to)
			}
		}
	}
	children, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range children {
		if b, err := os.ReadFile(name); err == nil && len(bytes.TrimSpace(b)) > 0 {
			list = append(list, name+": "+string(b))
		}
	}
	return list
}

// nothingLeft waits until the process has nothing of the kind any more.
func nothingLeft(t *testing.T) {
	t.Helper()
	var left []string
	for end := time.Now().Add(eventually); ; runtime.Gosched() {
		if left = elsewhereNow(t); len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("left behind: %q", left)
		}
	}
}

// TestBenchAcrossVeth: a bench makes its link, measures both transports and the raw one across it,
// and leaves nothing behind.
func TestBenchAcrossVeth(t *testing.T) {
	needsRoot(t)
	for _, line := range some(3,
		"bench rate --transport afpacket --symmetric", "bench latency --transport afpacket --raw",
		"bench latency --transport udp --veth --raw",
		"bench bandwidth --transport udp --veth --mtu 8952 --size 100000",
		"bench rate --transport afpacket --raw",
		"bench bandwidth --transport afpacket --raw --size 100000",
		"bench rate --transport afxdp --raw --threads 2", "bench latency --transport afxdp --raw",
		"bench rate --transport afxdp --symmetric",
		"bench rate --transport afxdp --versus none",
		"bench rate --transport afxdp --xdp-mode generic --raw",
		"bench bandwidth --transport afxdp --raw --size 100000",
		"bench bandwidth --transport afxdp --mtu 3776 --xdp-mode native --size 100000",
	) {
		status, out, errOut := runCommand(t, line+" --rounds 1 --duration 20ms --json"+gentle)
		var r measure.Result
		if status != cli.Done {
			t.Fatalf("erpc %s: status %d, err %q", line, status, errOut)
		}
		decodeOne(t, out, &r)
		mtu := 1472
		for _, large := range []int{3776, 8952} {
			if strings.Contains(line, fmt.Sprint("--mtu ", large)) {
				mtu = large
			}
		}
		if r.Link != "veth" || r.Rpcs == 0 || r.Errors != 0 || r.MTU != mtu ||
			strings.Contains(line, "--raw") != (r.Ratio > 0) {
			t.Errorf("erpc %s: %+v", line, r)
		}
		nothingLeft(t)
	}
	for _, tr := range []string{"afpacket", "afxdp"} {
		for _, line := range some(2, "demo --each 1ms",
			"bench sessions --counts 2 --rounds 1 --duration 50ms") {
			line += " --transport " + tr
			if status, out, errOut := runCommand(t, line); status != cli.Done {
				t.Errorf("erpc %s: status %d, out %q, err %q", line, status, out, errOut)
			}
			nothingLeft(t)
		}
	}
	if _, err := netlink.LinkByName("veth0"); !errors.As(err, new(netlink.LinkNotFoundError)) {
		t.Errorf("an interface is left: %v", err)
	}
}

// TestVethIsRemoved: after an error and after Ctrl-C nothing is left either.
func TestVethIsRemoved(t *testing.T) {
	needsRoot(t)
	status, _, errOut := runCommand(t, "bench rate --transport afpacket --pin 0,99999 --duration 1ms")
	if status != cli.Failed || !strings.Contains(errOut, "core 99999") {
		t.Errorf("status %d, err %q", status, errOut)
	}
	nothingLeft(t)

	p := start(t, "bench rate --transport afpacket --duration 1h --json"+gentle)
	waitFor(t, p.errLines, "measuring")
	ns := namespacesOf(t, p.cmd.Process.Pid)
	if len(ns) != 3 {
		t.Errorf("%d namespaces while it runs, want 3", len(ns))
	}
	out, err := p.interrupt(t)
	var r measure.Result
	decodeOne(t, out, &r)
	if err != nil || !r.Interrupted || r.Rpcs == 0 {
		t.Errorf("ended with %v, %+v", err, r)
	}
}

// namespacesOf returns the network namespaces that a process is in or holds.
func namespacesOf(t *testing.T, pid int) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, pattern := range []string{"/proc/%d/task/*/ns/net", "/proc/%d/fd/*"} {
		names, err := filepath.Glob(fmt.Sprintf(pattern, pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if to, err := os.Readlink(name); err == nil && strings.HasPrefix(to, "net:") {
				found[to] = true
			}
		}
	}
	return found
}

// without runs a command line in a process without capabilities, on a side if there is one, and
// returns how it ended.
func without(t *testing.T, s *vethtest.Side, line string, capabilities ...uintptr) (status int,
	out, errOut string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], strings.Fields(line)...)
	var results, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &results, &said
	ended := make(chan error)
	run := cmd.Run
	if s != nil {
		run = func() (err error) {
			s.Do(func() { err = cmd.Start() })
			return errors.Join(err, cmd.Wait())
		}
	}
	go func() {
		runtime.LockOSThread() // for good: the thread is of no use to others
		var err error
		for _, c := range capabilities {
			err = errors.Join(err, unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0))
		}
		if err == nil {
			err = run()
		}
		ended <- err
	}()
	var exit *exec.ExitError
	if err := <-ended; err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), results.String(), said.String()
}

// TestMissingRights: each missing capability is named, with what to do.
func TestMissingRights(t *testing.T) {
	needsRoot(t)
	status, _, errOut := without(t, nil, "bench rate --transport afpacket", unix.CAP_SYS_ADMIN)
	want := "needs CAP_SYS_ADMIN and CAP_NET_ADMIN: operation not permitted; run as root"
	if status != cli.Failed || !oneLineWith(errOut, want) {
		t.Errorf("status %d, err %q, want %q", status, errOut, want)
	}
	p := vethtest.New(t, 1500)
	status, _, errOut = without(t, p.A, fmt.Sprintf("ping %v:1 --transport afpacket --count 1",
		p.B.IP4), unix.CAP_BPF, unix.CAP_SYS_ADMIN)
	want = "afpacket: no guard keeps the kernel from the frames"
	if !strings.HasPrefix(errOut, want) || strings.Count(errOut, want) != 1 {
		t.Errorf("status %d, err %q, want %q", status, errOut, want)
	}
	status, _, errOut = without(t, p.A, "server --transport afpacket --iface "+p.A.Name,
		unix.CAP_NET_RAW)
	want = "needs CAP_NET_RAW: operation not permitted; run as root, or once: sudo setcap"
	if status != cli.Failed || !oneLineWith(errOut, want) {
		t.Errorf("status %d, err %q, want %q", status, errOut, want)
	}
	for _, c := range []struct {
		want    string
		missing []uintptr
	}{
		{"needs CAP_NET_RAW: socket: operation not permitted; run as root, or once: sudo setcap",
			[]uintptr{unix.CAP_NET_RAW}},
		{"needs CAP_NET_ADMIN and CAP_BPF: ", []uintptr{unix.CAP_BPF, unix.CAP_SYS_ADMIN}},
		{"needs CAP_NET_ADMIN and CAP_BPF: ", []uintptr{unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN}},
		{"ulimit -l allows too little locked memory: raise it, or once: sudo setcap",
			[]uintptr{unix.CAP_IPC_LOCK}},
	} {
		limitLocked(t, 1<<20)
		status, _, errOut = without(t, p.A, "server --transport afxdp --iface "+p.A.Name, c.missing...)
		if status != cli.Failed || !oneLineWith(errOut, c.want) ||
			!strings.Contains(errOut, "cap_ipc_lock") {
			t.Errorf("status %d, err %q, want %q", status, errOut, c.want)
		}
	}
}

// limitLocked sets this process's limit of locked memory, which its children inherit, for the test.
func limitLocked(t *testing.T, bytes uint64) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: bytes, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &old); err != nil {
			t.Error(err)
		}
	})
}

// TestDoctorNamesCapabilities: the doctor says which capability each part of the transport lacks.
func TestDoctorNamesCapabilities(t *testing.T) {
	needsRoot(t)
	limitLocked(t, 1<<20)
	_, out, errOut := without(t, nil, "doctor --json", unix.CAP_NET_RAW, unix.CAP_BPF,
		unix.CAP_SYS_ADMIN, unix.CAP_IPC_LOCK)
	var d diagnosis
	decodeOne(t, out, &d)
	missing := map[string]string{
		"afpacket: socket": "CAP_NET_RAW missing", "afpacket: guard": "CAP_BPF missing",
		"network namespaces": "CAP_SYS_ADMIN missing",
		"afxdp: socket":      "CAP_NET_RAW missing", "afxdp: program": "CAP_BPF missing",
		"afxdp: locked memory": "limit of 1024 KiB, and no CAP_IPC_LOCK: 0 endpoint",
	}
	for _, f := range d.Findings {
		want, ours := missing[f.Name]
		delete(missing, f.Name)
		if ours && (f.OK || !strings.HasPrefix(f.Found, want) || f.Mend == "") {
			t.Errorf("%+v, want it to name %s", f, want)
		}
	}
	if len(missing) > 0 {
		t.Errorf("not a word of %v; err %q", missing, errOut)
	}
}

func TestKernelVersion(t *testing.T) {
	for text, want := range map[string]string{
		"6.18.44-fc-v669": "6 18 true", "6.6-rc1": "6 6 true", "5.10": "5 10 true", "6": "6 0 false",
		"": "0 0 false", "x.y": "0 0 false",
	} {
		major, minor, ok := kernelVersion(text)
		if got := fmt.Sprint(major, minor, ok); got != want && (ok || strings.HasSuffix(want, "true")) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if f := findKernel("x", 1, 0, "slow"); !f.OK {
		t.Errorf("%+v", f)
	}
	if f := findKernel("x", 1<<20, 0, "slow"); f.OK || f.Mend == "" ||
		!strings.HasSuffix(f.Found, ": slow") {
		t.Errorf("%+v", f)
	}
}
