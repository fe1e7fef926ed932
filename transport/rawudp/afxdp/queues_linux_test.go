package afxdp

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/rawudp/rawtest"
	"github.com/userspace-rpc/erpc/transport/rawudp/vethtest"
	"golang.org/x/sys/unix"
)

// setQueues gives a side's interface so many queues each way (ethtool -L).
func setQueues(t *testing.T, s *vethtest.Side, n uint32) error {
	t.Helper()
	// struct ethtool_channels
	value := struct{ cmd, maxRx, maxTx, maxOther, maxCombined, rx, tx, other, combined uint32 }{
		cmd: unix.ETHTOOL_SCHANNELS, rx: n, tx: n,
	}
	return ethtool(t, s, unsafe.Pointer(&value))
}

// ethtool makes an ethtool request about a side's interface.
func ethtool(t *testing.T, s *vethtest.Side, value unsafe.Pointer) (err error) {
	t.Helper()
	req := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: value}
	copy(req.name[:], s.Name)
	s.Do(func() {
		fd, e := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if e != nil {
			t.Fatal(e)
		}
		defer unix.Close(fd)
		if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL,
			uintptr(unsafe.Pointer(&req))); e != 0 {
			err = e
		}
	})
	return err
}

// TestQueues: an endpoint gets its packets from whatever queue they come in by, several endpoints
// send by different ones, and queues that it does not have are left to the kernel.
func TestQueues(t *testing.T) {
	for _, mode := range []Mode{ModeNative, ModeGeneric} {
		t.Run(mode.String(), func(t *testing.T) { queues(t, mode) })
	}
}

func queues(t *testing.T, mode Mode) {
	p := vethtest.New(t, 1500)
	for _, s := range []*vethtest.Side{p.A, p.B} {
		switch err := setQueues(t, s, 2); {
		case errors.Is(err, errors.ErrUnsupported):
			t.Skipf("the kernel's veth has no queues: %v", err)
		case err != nil:
			t.Fatal(err)
		}
	}
	cfg := Config{Mode: mode, Ring: 64, Endpoints: 2}
	b := listenOn(t, p.B, p.B.IP4, cfg)
	if b.Queues() != 2 {
		t.Fatalf("%d queues", b.Queues())
	}
	var a []*Conn
	for range 2 {
		c := listenOn(t, p.A, p.A.IP4, cfg)
		rawtest.Meet(t, c, b)
		a = append(a, c)
	}
	items := make([]transport.TxItem, 20)
	for range 20 {
		for k, c := range a {
			for i := range items {
				items[i] = transport.TxItem{Dst: b.LocalAddr(), Head: []byte{byte(k), byte(i)}}
			}
			rawtest.Transmit(t, c, items)
		}
		next := [2]byte{}
		for _, x := range rawtest.Receive(t, b, 2*len(items), 7) {
			k := x.Data[0]
			if x.From != a[k].LocalAddr() || x.Data[1] != next[k] {
				t.Fatalf("packet %d of endpoint %d, want %d", x.Data[1], k, next[k])
			}
			next[k]++
		}
	}
	want := [2]uint32{400, 400}
	if mode == ModeGeneric { // to which veth does not say the queue
		want = [2]uint32{800, 0}
	}
	for q, l := range b.dev.lanes {
		if l.got != want[q] {
			t.Errorf("%d packets came in by queue %d", l.got, q)
		}
	}
	allChunks(t, []*Conn{b})
	if mode == ModeGeneric {
		return
	}
	b.Close()
	one := listenOn(t, p.B, p.B.IP4, Config{Mode: mode, Queues: 1})
	if one.Queues() != 1 {
		t.Fatalf("%d queues", one.Queues())
	}
	for i := range 2 { // the second one's packets come in by the other queue
		items[i] = transport.TxItem{Dst: one.LocalAddr(), Head: []byte{byte(i)}}
	}
	rawtest.Transmit(t, a[1], items[1:2])
	rawtest.Transmit(t, a[0], items[:1])
	if got := rawtest.Receive(t, one, 1, 8); len(got) != 1 || got[0].Data[0] != 0 {
		t.Errorf("received %d packets, the first %x", len(got), got[0].Data)
	}
}
