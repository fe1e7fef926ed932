package udp

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/userspace-rpc/erpc/transport"
	"golang.org/x/sys/unix"
)

// refusal is what a sandbox does: a system call, or a socket option, fails with an error.
type refusal struct {
	Call       uintptr
	Level, Opt uint32 // of setsockopt
	Errno      unix.Errno
}

// install makes the sandbox hold for all threads of this process.
func (r refusal) install() error {
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		ret   = unix.BPF_RET | unix.BPF_K
		// Places in struct seccomp_data; of arguments the low word of a little-endian machine.
		number, second, third = 0, 24, 32
	)
	prog := []unix.SockFilter{{Code: load, K: number}, {Code: equal, K: uint32(r.Call), Jf: 1}}
	if r.Call == unix.SYS_SETSOCKOPT {
		prog[1].Jf = 5
		prog = append(prog, unix.SockFilter{Code: load, K: second},
			unix.SockFilter{Code: equal, K: r.Level, Jf: 3}, unix.SockFilter{Code: load, K: third},
			unix.SockFilter{Code: equal, K: r.Opt, Jf: 1})
	}
	prog = append(prog, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(r.Errno)},
		unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW})
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&fprog)))
	if e != 0 {
		return e
	}
	return nil
}

const refusedEnv = "UDP_TEST_REFUSED"

// underRefusal is what a process finds out in a sandbox.
type underRefusal struct {
	MTU     int
	Refused []string
	Err     string
}

// TestRefusedChild is the process in the sandbox.
func TestRefusedChild(t *testing.T) {
	text := os.Getenv(refusedEnv)
	if text == "" {
		t.Skip("it is the child of TestRefused")
	}
	var r refusal
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread() // no_new_privs is of a thread before the filter is of all
	if err := r.install(); err != nil {
		t.Fatal(err)
	}
	var found underRefusal
	if err := found.exchange(); err != nil {
		found.Err = err.Error()
	}
	out, _ := json.Marshal(found)
	fmt.Println("found " + string(out))
}

// exchange sends packets from one socket on all addresses to another one, and back.
func (u *underRefusal) exchange() error {
	a, err := Listen(":0", Config{ECN: true})
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := Listen("127.0.0.1:0", Config{})
	if err != nil {
		return err
	}
	defer b.Close()
	u.MTU, u.Refused = a.Caps().MTU, a.Refused()
	to, err := a.Resolve(b.LocalAddr().String())
	if err != nil {
		return err
	}
	mtu := min(u.MTU, b.Caps().MTU)
	from, err := send(a, b, to, mtu)
	if err != nil {
		return err
	}
	_, err = send(b, a, from, mtu)
	return err
}

// send sends packets of size bytes and smaller ones, and returns where they came from.
func send(a, b *Conn, to transport.Addr, size int) (from transport.Addr, err error) {
	var items []transport.TxItem
	for n := range 40 {
		items = append(items, transport.TxItem{Dst: to, Head: make([]byte, size-n%3)})
	}
	if n, err := a.TxBurst(items); n != len(items) || err != nil {
		return from, fmt.Errorf("%d of %d packets were taken, %w", n, len(items), err)
	}
	var pkts [64]transport.RxPacket
	got := 0
	for end := time.Now().Add(20 * time.Second); got < len(items) && time.Now().Before(end); {
		if err := b.Wait(10 * time.Second); err != nil {
			return from, err
		}
		n, err := b.RxBurst(pkts[:])
		if err != nil {
			return from, err
		}
		if got += n; n > 0 {
			from = pkts[0].From
		}
	}
	if got < len(items) {
		return from, fmt.Errorf("%d of %d packets came", got, len(items))
	}
	return from, nil
}

// TestRefused: a sandbox refuses a system call or a socket option. Listen does without, says so,
// and packets travel, no larger than what every path carries where they could be cut in pieces.
func TestRefused(t *testing.T) {
	if _, err := os.ReadFile("/proc/sys/kernel/seccomp/actions_avail"); err != nil {
		lacks(t, "a kernel with seccomp: "+err.Error())
	}
	for name, r := range map[string]refusal{
		"IP_MTU_DISCOVER":   {Level: unix.SOL_IP, Opt: unix.IP_MTU_DISCOVER},
		"IPV6_MTU_DISCOVER": {Level: unix.SOL_IPV6, Opt: unix.IPV6_MTU_DISCOVER},
		"IPV6_DONTFRAG":     {Level: unix.SOL_IPV6, Opt: unix.IPV6_DONTFRAG},
		"IP_RECVERR":        {Level: unix.SOL_IP, Opt: unix.IP_RECVERR},
		"IP_PKTINFO":        {Level: unix.SOL_IP, Opt: unix.IP_PKTINFO},
		"IP_TOS":            {Level: unix.SOL_IP, Opt: unix.IP_TOS},
		"UDP_GRO":           {Level: unix.SOL_UDP, Opt: unix.UDP_GRO},
		"UDP_SEGMENT":       {Level: unix.SOL_UDP, Opt: unix.UDP_SEGMENT},
		"SO_RCVBUF":         {Level: unix.SOL_SOCKET, Opt: unix.SO_RCVBUF},
		"SO_RCVBUFFORCE":    {Level: unix.SOL_SOCKET, Opt: unix.SO_RCVBUFFORCE},
		"IPV6_V6ONLY":       {Level: unix.SOL_IPV6, Opt: unix.IPV6_V6ONLY},
		"recvmsg":           {Call: unix.SYS_RECVMSG},
		"recvmmsg":          {Call: unix.SYS_RECVMMSG},
		"sendmsg":           {Call: unix.SYS_SENDMSG},
		"sendmmsg":          {Call: unix.SYS_SENDMMSG},
		"ppoll":             {Call: unix.SYS_PPOLL},
	} {
		if r.Call == 0 {
			r.Call = unix.SYS_SETSOCKOPT
		}
		for _, r.Errno = range []unix.Errno{unix.EPERM, unix.ENOSYS} {
			t.Run(fmt.Sprintf("%s/%v", name, unix.ErrnoName(r.Errno)), func(t *testing.T) {
				checkRefused(t, name, r)
			})
		}
	}
}

func checkRefused(t *testing.T, name string, r refusal) {
	arg, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestRefusedChild$", "-test.count=1")
	cmd.Env = append(os.Environ(), refusedEnv+"="+string(arg))
	out, err := cmd.CombinedOutput()
	_, line, ok := strings.Cut(string(out), "found ")
	line, _, _ = strings.Cut(line, "\n")
	var found underRefusal
	if err != nil || !ok || json.Unmarshal([]byte(line), &found) != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if found.Err != "" {
		t.Error(found.Err)
	}
	mtu := DefaultMTU
	switch {
	case r.Call != unix.SYS_SETSOCKOPT:
		mtu = PortableMTU
	case strings.HasSuffix(name, "_MTU_DISCOVER") || name == "IPV6_DONTFRAG":
		mtu = safeMTU
	}
	if found.MTU != mtu {
		t.Errorf("packets of up to %d bytes, want %d", found.MTU, mtu)
	}
	// The kernel's own default of these is what is asked for, or there is another way.
	silent := name == "SO_RCVBUF" || name == "SO_RCVBUFFORCE" || name == "IPV6_V6ONLY" ||
		name == "UDP_SEGMENT" && found.Refused == nil // trains ask for themselves
	if slices.Contains(found.Refused, name) == silent {
		t.Errorf("it says that it does without %v", found.Refused)
	}
}
