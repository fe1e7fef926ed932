package udp

import (
	"os"
	"runtime"
	"testing"

	"github.com/userspace-rpc/erpc/transport"
	"golang.org/x/sys/unix"
)

// inNamespace runs f on a thread in a network namespace of its own, whose
// loopback interface has the given MTU and the only addresses.
func inNamespace(t *testing.T, mtu uint32, f func(t *testing.T)) {
	if os.Getuid() != 0 {
		t.Skip("a network namespace needs root")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := enterNamespace(mtu); err != nil {
			if os.Getenv("CI") == "true" {
				t.Errorf("no network namespace: %v", err)
			} else {
				t.Logf("skipped, no network namespace: %v", err)
			}
			return
		}
		f(t)
	}()
	<-done
}

// lacks skips a test for what this machine has not got. In CI that is an error.
func lacks(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal("needs " + what)
	}
	t.Skip("needs " + what)
}

func enterNamespace(mtu uint32) error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint32(mtu)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFMTU, req); err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
}

// TestSmallInterface sends packets larger than the interface takes: they are
// dropped and counted, never fragmented, and packets that just fit arrive, in trains too.
func TestSmallInterface(t *testing.T) {
	inNamespace(t, 1500, func(t *testing.T) {
		for _, v := range []struct {
			addr string
			fits int
		}{{"127.0.0.1:0", 1472}, {"[::1]:0", 1452}} {
			a, b := listen(t, v.addr, Config{MTU: 9000}), listen(t, v.addr, Config{MTU: 9000})
			if n, err := PathMTU(b.LocalAddr()); n != v.fits || err != nil {
				t.Errorf("PathMTU = %d, %v, want %d", n, err, v.fits)
			}
			if p := a.Path(b.LocalAddr()); p.MTU != v.fits {
				t.Errorf("Path %+v, want MTU %d", p, v.fits)
			}
			if p := a.Path(transport.Addr{}); p.MTU != 9000 {
				t.Errorf("Path to nowhere %+v, want MTU 9000", p)
			}
			if n, err := InterfaceMTU(b.LocalAddr()); n != v.fits || err != nil {
				t.Errorf("InterfaceMTU = %d, %v, want %d", n, err, v.fits)
			}
			var items []transport.TxItem
			for i := range 40 { // runs of packets that fit and runs that do not
				items = append(items, transport.TxItem{Dst: b.LocalAddr(), Head: make([]byte, v.fits+i/10%2)})
			}
			transmit(t, a, items)
			transmit(t, a, items[10:11])
			transmit(t, a, items[:1])
			receive(t, b, 21, 16)
			if s := a.Stats(); s.TxPackets != 21 || s.TxDropped != 21 {
				t.Errorf("%s: %d packets sent, %d dropped, want 21 and 21", v.addr, s.TxPackets, s.TxDropped)
			}
			if a.impl.(*kernelConn).tx.segments == 1 {
				t.Errorf("%s: gave up on trains", v.addr)
			}
		}
	})
}

// TestNoRoute sends where no route leads: dropped, and the socket goes on working.
func TestNoRoute(t *testing.T) {
	inNamespace(t, 65536, func(t *testing.T) {
		for _, addr := range []string{"127.0.0.1:0", ":0"} {
			a, b := listen(t, addr, Config{}), listen(t, "127.0.0.1:0", Config{})
			away, err := a.Resolve("192.0.2.1:9") // TEST-NET-1 of RFC 5737
			if err != nil {
				t.Fatal(err)
			}
			lost := transport.TxItem{Dst: away, Head: make([]byte, 48)}
			ok := transport.TxItem{Dst: b.LocalAddr(), Head: make([]byte, 48)}
			transmit(t, a, []transport.TxItem{lost})
			transmit(t, a, []transport.TxItem{lost, lost, ok, lost, ok, ok})
			receive(t, b, 3, 4)
			if s := a.Stats(); s.TxPackets != 3 || s.TxDropped != 4 {
				t.Errorf("%s: %d packets sent, %d dropped, want 3 and 4", addr, s.TxPackets, s.TxDropped)
			}
		}
	})
}
