package afxdp

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/rawudp"
	"github.com/userspace-rpc/erpc/transport/rawudp/rawtest"
	"github.com/userspace-rpc/erpc/transport/rawudp/vethtest"
	"golang.org/x/sys/unix"
)

// roleEnv makes the test binary play another process: it listens on the address in it, says "up",
// and waits to be killed.
const roleEnv = "AFXDP_TEST_LISTEN"

func TestMain(m *testing.M) {
	addr := os.Getenv(roleEnv)
	if addr == "" {
		os.Exit(m.Run())
	}
	c, err := Listen(addr, Config{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("up")
	for {
		_ = c.Wait(-1)
	}
}

// programs returns how many XDP programs are on a side's interface.
func programs(t *testing.T, s *vethtest.Side) int {
	t.Helper()
	if x := s.Link().Attrs().Xdp; x != nil && x.Attached {
		return 1
	}
	return 0
}

// other starts another process that has an endpoint on the side.
func other(t *testing.T, s *vethtest.Side) (cmd *exec.Cmd, said string) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+netip.AddrPortFrom(s.IP4, 0).String())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.Do(func() { err = cmd.Start() }) // the child is born into the thread's namespace
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1000)
	n, _ := out.Read(buf)
	return cmd, string(buf[:n])
}

// TestKilledProcess: the program does not outlive its process, however that ends. While it lives,
// this process cannot have the link, and is told why; afterwards it can.
func TestKilledProcess(t *testing.T) {
	p := vethtest.New(t, 1500)
	cmd, said := other(t, p.A)
	if !strings.HasPrefix(said, "up") {
		t.Fatalf("child: %s", said)
	}
	if programs(t, p.A) != 1 {
		t.Error("no program")
	}
	for _, mode := range []Mode{ModeAuto, ModeNative, ModeGeneric} {
		wantBusy(t, p.A, mode)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for end := time.Now().Add(rawtest.Patience); programs(t, p.A) != 0; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("the program outlives its process")
		}
	}
	a, b := listenOn(t, p.A, p.A.IP4, Config{}), listenOn(t, p.B, p.B.IP4, Config{})
	rawtest.Exchange(t, a, b)
	rawtest.Exchange(t, b, a)
	if cmd, said := other(t, p.A); !strings.Contains(said, ErrBusy.Error()) {
		t.Errorf("another process is told %q", said)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	} else {
		_ = cmd.Wait()
	}
	rawtest.Exchange(t, b, a)
}

func wantBusy(t *testing.T, s *vethtest.Side, mode Mode) {
	t.Helper()
	s.Do(func() {
		c, err := Listen(netip.AddrPortFrom(s.IP4, 0).String(), Config{Mode: mode})
		if err == nil {
			c.Close()
		}
		if e, ok := errors.AsType[*rawudp.LinkError](err); !ok || e.Link != s.Name ||
			!errors.Is(err, ErrBusy) {
			t.Errorf("mode %v: %v", mode, err)
		}
	})
}

// TestForeignProgram: a program of somebody else on the link is left alone.
func TestForeignProgram(t *testing.T) {
	p := vethtest.New(t, 1500)
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.XDP, License: "MIT",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, xdpPass), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	for _, flags := range []link.XDPAttachFlags{link.XDPDriverMode, link.XDPGenericMode} {
		var at link.Link
		p.A.Do(func() {
			at, err = link.AttachXDP(link.XDPOptions{Program: prog, Interface: p.A.Link().Attrs().Index,
				Flags: flags})
		})
		if err != nil {
			t.Fatal(err)
		}
		wantBusy(t, p.A, ModeAuto)
		if programs(t, p.A) != 1 {
			t.Error("the other program is gone")
		}
		at.Close()
	}
	listenOn(t, p.A, p.A.IP4, Config{})
}

// TestShare: endpoints of one process share the link's program, each gets its own packets, and any
// of them can go first. The program goes with the last.
func TestShare(t *testing.T) {
	for _, mode := range []Mode{ModeNative, ModeGeneric} {
		p := vethtest.New(t, 1500)
		cfg := Config{Mode: mode, Endpoints: 3, Ring: 64}
		var a []*Conn
		for i := range 3 {
			a = append(a, listenOn(t, p.A, []netip.Addr{p.A.IP4, p.A.IP6}[i%2], cfg))
		}
		b4, b6 := listenOn(t, p.B, p.B.IP4, cfg), listenOn(t, p.B, p.B.IP6, cfg)
		b := []*Conn{b4, b6, b4}
		p.A.Do(func() {
			_, err := Listen(netip.AddrPortFrom(p.A.IP4, 0).String(), cfg)
			if e, ok := errors.AsType[*rawudp.LinkError](err); !ok || e.Link != p.A.Name ||
				!errors.Is(err, ErrFull) {
				t.Errorf("a fourth of three endpoints: %v", err)
			}
		})
		for i := range a {
			rawtest.Exchange(t, a[i], b[i])
			rawtest.Exchange(t, b[i], a[i])
		}
		for i := range 30 { // the first goes, another comes
			first := a[0]
			ip := netip.AddrFrom16(first.LocalAddr().IP).Unmap()
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			a, b = append(a[1:], listenOn(t, p.A, ip, cfg)), append(b[1:], b[0])
			for k := range a {
				rawtest.Exchange(t, b[k], a[k])
			}
			if i%10 == 0 {
				allChunks(t, a)
			}
		}
		for i, c := range a {
			c.Close()
			if n, want := programs(t, p.A), 1; i == 2 && n != 0 || i < 2 && n != want {
				t.Errorf("%d programs after %d of 3 endpoints closed", n, i+1)
			}
		}
	}
}

// TestReopen: the link can be had again at once after the last endpoint closed.
func TestReopen(t *testing.T) {
	p := vethtest.New(t, 1500)
	for i := range 30 {
		c := listenOn(t, p.A, p.A.IP4, Config{Mode: Mode(i%2) + ModeNative, Ring: 64, Endpoints: 1})
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// allChunks checks that no receive chunk of the queues is lost or in two places, while nothing
// moves. ends are all endpoints on the link.
func allChunks(t *testing.T, ends []*Conn) {
	t.Helper()
	for q, p := range ends[0].dev.pools {
		seen := map[uint64]int{}
		for _, c := range p.spare {
			seen[c]++
		}
		for at := atomic.LoadUint32(p.fill.consumer); at != p.filled; at++ {
			seen[p.fill.addr[at&p.fill.mask]]++
		}
		for _, c := range ends {
			l := c.dev.lanes[q]
			for _, c := range l.lent {
				seen[c]++
			}
			for at := l.got; at != atomic.LoadUint32(l.rx.producer); at++ {
				seen[l.rx.desc[at&l.rx.mask].Addr&^(chunkSize-1)]++
			}
		}
		for c, n := range seen {
			if n != 1 {
				t.Errorf("chunk %#x is in %d places", c, n)
			}
		}
		// The kernel keeps the one of the last frame that did not fit.
		if n := p.slots * (p.ring + rxSpare); len(seen) < n-1 {
			t.Errorf("%d of %d chunks are left", len(seen), n)
		}
	}
}

// TestSlowNeighbour: an endpoint that does not receive keeps no other from receiving.
func TestSlowNeighbour(t *testing.T) {
	p := vethtest.New(t, 1500)
	cfg := Config{Ring: 64, Endpoints: 2}
	a := listenOn(t, p.A, p.A.IP4, cfg)
	slow, fast := listenOn(t, p.B, p.B.IP4, cfg), listenOn(t, p.B, p.B.IP4, cfg)
	rawtest.Meet(t, a, slow)
	items := make([]transport.TxItem, 48)
	for i := range items {
		items[i] = transport.TxItem{Dst: slow.LocalAddr(), Head: []byte{byte(i)}}
	}
	for range 10 {
		rawtest.Transmit(t, a, items)
	}
	for i := range items {
		items[i].Dst = fast.LocalAddr()
	}
	for range 10 {
		rawtest.Transmit(t, a, items)
		if got := rawtest.Receive(t, fast, len(items), 64); len(got) != len(items) {
			t.Errorf("%d packets", len(got))
		}
	}
	got := rawtest.Receive(t, slow, 64, 128)
	if n := slow.Stats().RxDropped; len(got) != 64 || n != 480-64 || fast.Stats().RxDropped != 0 {
		t.Errorf("slow: %d received, %d dropped; fast: %d dropped", len(got), n, fast.Stats().RxDropped)
	}
}

// TestShareUnderLoad: endpoints of one link send and receive at the same time, from goroutines of
// their own.
func TestShareUnderLoad(t *testing.T) {
	p := vethtest.New(t, 1500)
	const pairs, each = 3, 20_000
	var wg sync.WaitGroup
	for i := range pairs {
		a, b := listenOn(t, p.A, p.A.IP4, Config{}), listenOn(t, p.B, p.B.IP4, Config{})
		rawtest.Meet(t, a, b)
		wg.Go(func() { pingPong(t, a, b, byte(i), each) })
	}
	wg.Wait()
}

// pingPong sends bursts to and fro and checks that each packet is the pair's own.
func pingPong(t *testing.T, a, b *Conn, mark byte, count int) {
	pkts := make([]transport.RxPacket, 64)
	items := make([]transport.TxItem, 16)
	for i := range items {
		items[i] = transport.TxItem{Dst: b.LocalAddr(), Head: []byte{mark, byte(i)}}
	}
	end := time.Now().Add(4 * rawtest.Patience)
	for got := 0; got < count; {
		for _, c := range []*Conn{a, b} {
			n, err := c.RxBurst(pkts)
			for _, x := range pkts[:n] {
				if len(x.Data) != 2 || x.Data[0] != mark {
					t.Errorf("%x at the endpoint of %d", x.Data, mark)
					return
				}
			}
			got += n
			if err == nil {
				_, err = c.TxBurst(items)
			}
			if err != nil || time.Now().After(end) {
				t.Errorf("%d of %d packets: %v", got, count, err)
				return
			}
		}
	}
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

// TestPrivileges: what is missing is named.
func TestPrivileges(t *testing.T) {
	p := vethtest.New(t, 1500)
	addr := netip.AddrPortFrom(p.A.IP4, 0).String()
	p.A.Do(func() {
		for need, caps := range map[string][]int{
			"CAP_NET_RAW":   {unix.CAP_NET_RAW},
			"CAP_BPF":       {unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_BPF},
			"CAP_NET_ADMIN": {unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN},
		} {
			without(t, func() {
				c, err := Listen(addr, Config{})
				if e, ok := errors.AsType[*rawudp.PrivilegeError](err); !ok ||
					!strings.Contains(e.Need, need) || !errors.Is(err, unix.EPERM) {
					t.Errorf("without %s: %v, %v", need, c, err)
				}
			}, caps...)
		}
	})
	if programs(t, p.A) != 0 {
		t.Error("a program is left")
	}
}

// TestListenErrors: every way to fail says which.
func TestListenErrors(t *testing.T) {
	p := vethtest.New(t, 1500)
	p.A.Do(func() {
		taken, err := Listen(netip.AddrPortFrom(p.A.IP4, 0).String(), Config{Mode: ModeGeneric})
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		if taken.Mode() != ModeGeneric || taken.Queues() != 1 || taken.ZeroCopy() {
			t.Errorf("mode %v, %d queues, zero copy %v", taken.Mode(), taken.Queues(), taken.ZeroCopy())
		}
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
		for _, cfg := range []Config{
			{Ring: -1}, {Ring: 100}, {Ring: 2 * MaxRing}, {MTU: 10}, {MTU: 1 << 20}, {Mode: 9},
			{Endpoints: -1},
			{Endpoints: MaxEndpoints + 1}, {Queues: -1}, {Queues: MaxQueues + 1},
			{Interface: p.A.Name, Mode: ModeNative},
		} {
			if _, err := Listen(":0", cfg); err == nil {
				t.Errorf("%+v is accepted", cfg)
			} else if _, ok := errors.AsType[*ConfigError](err); !ok {
				t.Errorf("%+v: %v", cfg, err)
			}
		}
	})
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
