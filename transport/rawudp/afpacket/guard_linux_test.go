package afpacket

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/rawudp"
	"github.com/userspace-rpc/erpc/transport/rawudp/rawtest"
	"github.com/userspace-rpc/erpc/transport/rawudp/vethtest"
	"golang.org/x/sys/unix"
)

// roleEnv makes the test binary play another process: it listens on the address in it, says "up",
// and waits to be killed.
const roleEnv = "AFPACKET_TEST_LISTEN"

func TestMain(m *testing.M) {
	addr := os.Getenv(roleEnv)
	if addr == "" {
		os.Exit(m.Run())
	}
	c, err := Listen(addr, Config{Guard: GuardMust})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("up")
	_ = c.Wait(-1)
	for {
		_ = c.Wait(-1)
	}
}

// guards returns how many programs are attached to the ingress of a side's interface.
func guards(t *testing.T, s *vethtest.Side) (n int) {
	t.Helper()
	s.Do(func() {
		got, err := link.QueryPrograms(link.QueryOptions{Target: s.Link().Attrs().Index,
			Attach: ebpf.AttachTCXIngress})
		if err != nil {
			t.Fatal(err)
		}
		n = len(got.Programs)
	})
	return n
}

// TestGuardComesAndGoes: each endpoint has its guard, which goes with it.
func TestGuardComesAndGoes(t *testing.T) {
	p := vethtest.New(t, 1500)
	var ends []*Conn
	for i := range 3 {
		c := listenOn(t, p.A, []netip.Addr{p.A.IP4, p.A.IP6}[i%2], Config{Guard: GuardMust})
		if on, err := c.Guarded(); !on || err != nil {
			t.Errorf("Guarded = %v, %v", on, err)
		}
		if ends = append(ends, c); guards(t, p.A) != i+1 {
			t.Errorf("%d guards, want %d", guards(t, p.A), i+1)
		}
	}
	off := listenOn(t, p.A, p.A.IP4, Config{Guard: GuardOff})
	if on, err := off.Guarded(); on || err != nil || guards(t, p.A) != 3 {
		t.Errorf("without guard: %v, %v, %d", on, err, guards(t, p.A))
	}
	for i, c := range ends {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if n := guards(t, p.A); n != 2-i {
			t.Errorf("%d guards left, want %d", n, 2-i)
		}
	}
}

// TestGuardOfKilledProcess: the guard does not outlive its process, however that ends.
func TestGuardOfKilledProcess(t *testing.T) {
	p := vethtest.New(t, 1500)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+netip.AddrPortFrom(p.A.IP4, 0).String())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.A.Do(func() { err = cmd.Start() }) // the child is born into the thread's namespace
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1000)
	n, _ := out.Read(buf)
	if text := string(buf[:n]); !strings.HasPrefix(text, "up") {
		t.Fatalf("child: %s", text)
	}
	if n := guards(t, p.A); n != 1 {
		t.Errorf("%d guards, want 1", n)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for end := time.Now().Add(rawtest.Patience); guards(t, p.A) != 0; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("the guard outlives its process")
		}
	}
}

// TestGuardKeepsKernelOut counts what the kernel's own socket of the endpoint's port gets:
// everything without guard (and drops it), nothing with.
func TestGuardKeepsKernelOut(t *testing.T) {
	for _, guard := range []Guard{GuardMust, GuardOff} {
		p := vethtest.New(t, 1500)
		a, b := listenOn(t, p.A, p.A.IP4, Config{}), listenOn(t, p.B, p.B.IP4, Config{Guard: guard})
		rawtest.Meet(t, a, b)
		items := make([]transport.TxItem, 50)
		for i := range items {
			items[i] = transport.TxItem{Dst: b.LocalAddr(), Head: make([]byte, 100-i%2)} // not all in trains
		}
		rawtest.Transmit(t, a, items)
		rawtest.Receive(t, b, len(items), 8)
		drops := socketDrops(t, b.dev.port)
		if guard == GuardMust && drops != 0 || guard == GuardOff && drops != uint32(len(items)) {
			t.Errorf("guard mode %d: the kernel's socket got %d of %d packets", guard, drops, len(items))
		}
	}
}

// socketDrops returns how many packets a socket has dropped (SO_MEMINFO).
func socketDrops(t *testing.T, fd int) uint32 {
	t.Helper()
	const size, drops = 9 * 4, 8 * 4 // SK_MEMINFO_VARS, SK_MEMINFO_DROPS
	var info [size]byte
	if err := getsockopt(fd, unix.SO_MEMINFO, info[:]); err != nil {
		t.Fatal(err)
	}
	return binary.NativeEndian.Uint32(info[drops:])
}

func getsockopt(fd, opt int, b []byte) error {
	size := uint32(len(b))
	_, _, e := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, uintptr(opt),
		uintptr(unsafe.Pointer(&b[0])), uintptr(unsafe.Pointer(&size)), 0)
	if e != 0 {
		return e
	}
	return nil
}

// without runs f on this thread without some capabilities.
func without(t *testing.T, f func(), caps ...int) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var old [2]unix.CapUserData
	if err := unix.Capget(&h, &old[0]); err != nil {
		t.Fatal(err)
	}
	less := old
	for _, c := range caps {
		less[c/32].Effective &^= 1 << (c % 32)
	}
	if err := unix.Capset(&h, &less[0]); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Capset(&h, &old[0]); err != nil {
			t.Error(err)
			runtime.LockOSThread() // for good
		}
	}()
	f()
}

// TestPrivileges: what is missing is named, and only what cannot do without fails.
func TestPrivileges(t *testing.T) {
	p := vethtest.New(t, 1500)
	addr := netip.AddrPortFrom(p.A.IP4, 0).String()
	p.A.Do(func() {
		without(t, func() {
			c, err := Listen(addr, Config{})
			if e, ok := errors.AsType[*rawudp.PrivilegeError](err); !ok || e.Need != "CAP_NET_RAW" ||
				!errors.Is(err, unix.EPERM) {
				t.Errorf("without CAP_NET_RAW: %v, %v", c, err)
			}
		}, unix.CAP_NET_RAW)
		without(t, func() {
			_, err := Listen(addr, Config{Guard: GuardMust})
			if e, ok := errors.AsType[*rawudp.PrivilegeError](err); !ok ||
				!strings.Contains(e.Need, "CAP_BPF") {
				t.Errorf("without CAP_BPF, guard wanted: %v", err)
			}
			c, err := Listen(addr, Config{})
			if err != nil {
				t.Errorf("without CAP_BPF: %v", err)
				return
			}
			defer c.Close()
			on, why := c.Guarded()
			if _, ok := errors.AsType[*rawudp.PrivilegeError](why); on || !ok {
				t.Errorf("without CAP_BPF: Guarded = %v, %v", on, why)
			}
			// The kernel is asked for neighbours in another way.
			if _, err := c.Resolve(netip.AddrPortFrom(p.B.IP4, 5).String()); err != nil {
				t.Error(err)
			}
		}, unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_BPF)
	})
}

// TestListenErrors: every way to fail says which.
func TestListenErrors(t *testing.T) {
	p := vethtest.New(t, 1500)
	p.A.Do(func() {
		taken, err := Listen(netip.AddrPortFrom(p.A.IP4, 0).String(), Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		for _, x := range []struct {
			addr string
			cfg  Config
			want error
			link string
		}{
			{":0", Config{Interface: "nosuch0"}, rawudp.ErrNoLink, "nosuch0"},
			{"10.99.99.99:0", Config{}, rawudp.ErrNoLink, "10.99.99.99"},
			{"10.99.99.99:0", Config{Interface: p.A.Name}, rawudp.ErrNoAddress, p.A.Name},
			{":0", Config{Interface: "lo"}, rawudp.ErrNotEthernet, "lo"},
			{"127.0.0.1:0", Config{}, transport.ErrBadAddress, ""},
			{"0.0.0.0:0", Config{}, transport.ErrBadAddress, ""},
			{"", Config{}, transport.ErrBadAddress, ""},
			{"x:y:z", Config{}, transport.ErrBadAddress, ""},
			{taken.LocalAddr().String(), Config{}, unix.EADDRINUSE, ""},
		} {
			c, err := Listen(x.addr, x.cfg)
			if err == nil {
				c.Close()
			}
			if !errors.Is(err, x.want) {
				t.Errorf("Listen(%q, %+v): %v, want %v", x.addr, x.cfg, err, x.want)
			}
			if e, ok := errors.AsType[*rawudp.LinkError](err); ok != (x.link != "") ||
				ok && e.Link != x.link {
				t.Errorf("Listen(%q, %+v): %v does not name %q", x.addr, x.cfg, err, x.link)
			}
		}
		for _, cfg := range []Config{{Ring: -1}, {Ring: MaxRing + 1}, {MTU: 10}, {MTU: 1 << 20},
			{Guard: 9}} {
			if _, err := Listen(":0", cfg); err == nil {
				t.Errorf("%+v is accepted", cfg)
			} else if _, ok := errors.AsType[*ConfigError](err); !ok {
				t.Errorf("%+v: %v", cfg, err)
			}
		}
	})
	p.B.Bare()
	p.B.Do(func() {
		_, err := Listen(":0", Config{Interface: p.B.Name})
		if e, ok := errors.AsType[*rawudp.LinkError](err); !ok || e.Err != rawudp.ErrNoAddress ||
			e.Link != p.B.Name {
			t.Errorf("without addresses: %v", err)
		}
	})
}

// TestNeighbours: one that does not answer and one that no route leads to are told apart; a static
// one is not asked for.
func TestNeighbours(t *testing.T) {
	p := vethtest.New(t, 1500)
	silent := netip.MustParseAddr("10.111.0.77")
	fixed := netip.MustParseAddr("192.0.2.1")
	a := listenOn(t, p.A, p.A.IP4, Config{
		NeighbourTimeout: 50 * time.Millisecond,
		Neighbours:       map[netip.Addr]rawudp.MAC{fixed: rawudp.MAC(p.B.MAC)},
	})
	for _, x := range []struct {
		ip   netip.Addr
		want error
	}{{silent, rawudp.ErrNoNeighbour}, {netip.MustParseAddr("192.0.2.99"), rawudp.ErrNoRoute}} {
		_, err := a.Resolve(netip.AddrPortFrom(x.ip, 9).String())
		if e, ok := errors.AsType[*rawudp.NeighbourError](err); !ok || e.IP != x.ip ||
			e.Link != p.A.Name || !errors.Is(err, x.want) {
			t.Errorf("%v: %v", x.ip, err)
		}
		// Packets there are dropped, and do not hold up others.
		before := a.Stats().TxDropped
		rawtest.Transmit(t, a,
			[]transport.TxItem{{Dst: transport.AddrFrom(netip.AddrPortFrom(x.ip, 9), 0), Head: []byte("x")}})
		if n := a.Stats().TxDropped - before; n != 1 {
			t.Errorf("%v: %d packets dropped", x.ip, n)
		}
	}
	to, err := a.Resolve(netip.AddrPortFrom(fixed, 9).String())
	if err != nil {
		t.Fatal(err)
	}
	rawtest.Transmit(t, a, []transport.TxItem{{Dst: to, Head: []byte("x")}})
	if s := a.Stats(); s.TxPackets != 1 {
		t.Errorf("%+v", s)
	}
}

// TestNeighbourMoves: when the peer's MAC address changes and the kernel learns so, packets follow.
func TestNeighbourMoves(t *testing.T) {
	p := vethtest.New(t, 1500)
	a, b := listenOn(t, p.A, p.A.IP4, Config{}), listenOn(t, p.B, p.B.IP4, Config{})
	rawtest.Exchange(t, a, b)
	rawtest.Exchange(t, b, a)
	p.B.Renumber([]byte{2, 0, 0, 0, 0, 0x77})
	rawtest.Exchange(t, b, a) // from the new address
	p.A.Learn(p.B)
	rawtest.Exchange(t, a, b)
	if b.Link().MAC != (rawudp.MAC{2, 0, 0, 0, 0, 0x77}) {
		t.Errorf("MAC address %v", b.Link().MAC)
	}
}
