package udp

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/userspace-rpc/erpc/internal/recverr"
	"github.com/userspace-rpc/erpc/transport"
	"golang.org/x/sys/unix"
)

// nobody returns an address at which nobody listens, of the machine that addr names.
func nobody(tb testing.TB, addr string) transport.Addr {
	tb.Helper()
	c, err := Listen(addr, Config{})
	if err != nil {
		tb.Fatal(err)
	}
	to := c.LocalAddr()
	if err = c.Close(); err != nil {
		tb.Fatal(err)
	}
	return to
}

// hints waits until c has heard so many, and returns copies of them.
func hints(tb testing.TB, c *Conn, want int) (all []transport.Hint) {
	tb.Helper()
	buf := make([]transport.Hint, 3)
	for tries := 0; len(all) < want; tries++ {
		if tries > 1000 {
			tb.Fatalf("%d hints, want %d", len(all), want)
		}
		if n, err := c.RxBurst(make([]transport.RxPacket, 1)); n != 0 || err != nil {
			tb.Fatalf("RxBurst: %d, %v", n, err)
		}
		n := c.Hints(buf)
		for _, h := range buf[:n] {
			h.Quoted = bytes.Clone(h.Quoted)
			all = append(all, h)
		}
		if n == 0 {
			if err := c.Wait(patience); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return all
}

// idle fails the test if the socket's next wait would end at once.
func (c *Conn) idle(tb testing.TB) {
	tb.Helper()
	fds := []unix.PollFd{{Fd: int32(c.impl.(*kernelConn).fd), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, 0); n != 0 || err != nil {
		tb.Errorf("the socket is ready: %d, %v, %#x", n, err, fds[0].Revents)
	}
}

// TestUnreachable: a packet to a port at which nobody listens brings a hint that quotes it, by
// sendto as by trains, and the socket can sleep again.
func TestUnreachable(t *testing.T) {
	for _, v := range []struct{ local, peer string }{
		{"127.0.0.1:0", "127.0.0.1:0"}, {"[::1]:0", "[::1]:0"}, {":0", "127.0.0.1:0"},
		{":0", "[::1]:0"}, {"0.0.0.0:0", "127.0.0.1:0"},
	} {
		c, to := listen(t, v.local, Config{}), nobody(t, v.peer)
		for _, size := range []int{0, 1, 48, transport.QuotedMax, 1000} {
			p := fillPattern(make([]byte, size), size)
			transmit(t, c, []transport.TxItem{{Dst: to, Head: p}})
			got := hints(t, c, 1)
			want := p[:min(len(p), transport.QuotedMax)]
			if h := got[0]; len(got) != 1 || h.Kind != transport.HintUnreachable || h.To != to ||
				h.MTU != 0 || !bytes.Equal(h.Quoted, want) {
				t.Errorf("%+v, %d bytes: %d hints, the first one %+v", v, size, len(got), h)
			}
			c.idle(t)
		}
		if n := c.Hints(make([]transport.Hint, 4)); n != 0 {
			t.Errorf("%+v: %d hints more", v, n)
		}
	}
}

// TestHintInTheMiddle: a packet to nobody leaves in one call with others. The kernel ends the call
// there and says no error, since it has sent something. The hint comes all the same.
func TestHintInTheMiddle(t *testing.T) {
	const local = "127.0.0.1:0"
	c, other, to := listen(t, local, Config{}), listen(t, local, Config{}), nobody(t, local)
	for range 10 {
		transmit(t, c, []transport.TxItem{
			{Dst: to, Head: []byte("nobody")}, {Dst: other.LocalAddr(), Head: []byte("somebody")},
		})
		h := make([]transport.Hint, 2)
		if n := c.Hints(h); n != 1 || string(h[0].Quoted) != "nobody" {
			t.Fatalf("%d hints, %+v", n, h[0])
		}
		c.idle(t)
	}
	if got := receive(t, other, 10, 4); len(got) != 10 {
		t.Errorf("%d packets", len(got))
	}
}

// TestManyHints: hints are kept in their order, as many as there is room for, and until the next
// call of Hints. The kernel's queue is emptied all the same.
func TestManyHints(t *testing.T) {
	c, to := listen(t, "127.0.0.1:0", Config{}), nobody(t, "127.0.0.1:0")
	send := func(from, n int) {
		for i := range n {
			transmit(t, c, []transport.TxItem{{Dst: to, Head: []byte{byte(from + i)}}})
		}
	}
	send(0, 10)
	first := make([]transport.Hint, 4)
	if n := c.Hints(first); n != 4 {
		t.Fatalf("%d hints", n)
	}
	send(10, recverr.MaxHints) // six fewer than that find room
	for i, h := range first {
		if len(h.Quoted) != 1 || int(h.Quoted[0]) != i {
			t.Errorf("hint %d quotes %v later", i, h.Quoted)
		}
	}
	rest := make([]transport.Hint, 2*recverr.MaxHints)
	n := c.Hints(rest)
	if n != recverr.MaxHints-4 {
		t.Errorf("%d hints in the rest of a store of %d", n, recverr.MaxHints)
	}
	for i, h := range rest[:n] {
		if int(h.Quoted[0]) != 4+i {
			t.Errorf("hint %d quotes %v", 4+i, h.Quoted)
		}
	}
	if _, err := c.RxBurst(make([]transport.RxPacket, 1)); err != nil {
		t.Fatal(err)
	}
	c.idle(t)
}

// disturb makes errors on a socket from another thread, by packets to nobody, until the returned
// function is called. That takes all errors, which fill the receive buffer.
func disturb(tb testing.TB, c *Conn, dead transport.Addr) (calm func()) {
	tb.Helper()
	k := c.impl.(*kernelConn)
	var name sockaddr
	if !name.put(&dead, k.ip4) {
		tb.Fatal("no address")
	}
	var stop atomic.Bool
	var done sync.WaitGroup
	done.Go(func() {
		for !stop.Load() {
			_ = sysSendto(k.fd, []byte("nobody"), &name, k.tx.nameLen())
			runtime.Gosched() // the other side may wait for this processor after each of its calls
		}
	})
	return func() {
		stop.Store(true)
		done.Wait()
		for quiet := 0; quiet < 10; quiet++ {
			if n, err := c.RxBurst(make([]transport.RxPacket, 1)); n != 0 || err != nil {
				tb.Fatalf("RxBurst: %d, %v", n, err)
			}
			if k.errors.due {
				quiet = 0
			}
		}
	}
}

// TestErrorsLoseNothing: errors about packets to nobody come at any time, from packets of the same
// burst and from another thread's. All packets are sent all the same, alone and in trains, and none
// is counted as dropped. The kernel's own queues may lose some, so busy is the machine then.
func TestErrorsLoseNothing(t *testing.T) {
	for _, v := range []struct {
		addr string
		cfg  Config
	}{{"127.0.0.1:0", Config{}}, {"[::1]:0", Config{NoGSO: true}}, {":0", Config{}}} {
		host := strings.Replace(v.addr, ":0", "127.0.0.1:0", 1)
		if v.addr != ":0" {
			host = v.addr
		}
		a, b, dead := listen(t, v.addr, v.cfg), listen(t, host, v.cfg), nobody(t, host)
		var want [][]byte // what may still come
		to, sent := b.LocalAddr(), uint64(0)
		for round := 0; round < 4 || a.SoftErrors() < 200 && round < 50; round++ {
			calm := disturb(t, a, dead)
			for burst := range 20 {
				var items []transport.TxItem
				for i := range 1 + (round+burst)%40 {
					p := fillPattern(make([]byte, 40+i/10), int(sent))
					sent++
					if i%7 == 3 {
						items = append(items, transport.TxItem{Dst: dead, Head: p})
					} else {
						items = append(items, transport.TxItem{Dst: to, Head: p})
						want = append(want, p)
					}
				}
				transmit(t, a, items)
			}
			calm()
			want = checkSome(t, b, want)
		}
		if s := a.Stats(); s.TxDropped != 0 || s.TxPackets != sent {
			t.Errorf("%+v: of %d packets %d were sent, %d dropped", v, sent, s.TxPackets, s.TxDropped)
		}
		if k := a.impl.(*kernelConn); k.tx.segments == 1 && maxSegments() > 1 && !v.cfg.NoGSO {
			t.Errorf("%+v: gave up on trains", v)
		}
		if a.SoftErrors() == 0 {
			t.Errorf("%+v: no errors", v)
		}
	}
}

// checkSome fails the test if what c has received is not some of want, in its order, and returns
// what may still come.
func checkSome(tb testing.TB, c *Conn, want [][]byte) [][]byte {
	tb.Helper()
	pkts := make([]transport.RxPacket, 16)
	for quiet := 0; quiet < 10; quiet++ {
		n, err := c.RxBurst(pkts)
		if err != nil {
			tb.Fatal(err)
		}
		for _, p := range pkts[:n] {
			quiet = 0
			for len(want) > 0 && !bytes.Equal(p.Data, want[0]) {
				want = want[1:]
			}
			if len(want) == 0 {
				tb.Fatalf("a packet of %d bytes came that nobody sent", len(p.Data))
			}
			want = want[1:]
		}
	}
	return want
}

// TestTooBig: a packet that the interface does not take brings a hint with its limit.
func TestTooBig(t *testing.T) {
	inNamespace(t, 1500, func(t *testing.T) {
		for addr, fits := range map[string]int{"127.0.0.1:0": 1472, "[::1]:0": 1452} {
			a, b := listen(t, addr, Config{MTU: 9000}), listen(t, addr, Config{MTU: 9000})
			transmit(t, a, []transport.TxItem{{Dst: b.LocalAddr(), Head: make([]byte, 2000)}})
			h := hints(t, a, 1)[0]
			if h.Kind != transport.HintTooBig || h.To.IP != b.LocalAddr().IP || h.MTU != fits {
				t.Errorf("%s: %+v, want MTU %d", addr, h, fits)
			}
			if s := a.Stats(); s.TxDropped != 1 {
				t.Errorf("%s: %d packets dropped", addr, s.TxDropped)
			}
		}
	})
}

// TestErrorMessages: what the kernel's error messages mean, and that broken ones mean nothing.
func TestErrorMessages(t *testing.T) {
	to4, to6 := transport.Addr{Port: 9}, transport.Addr{Port: 9}
	to4.IP = [16]byte{10: 0xFF, 11: 0xFF, 12: 127, 15: 1}
	to6.IP = [16]byte{15: 1}
	big := uint32(unix.EMSGSIZE)
	for _, c := range []struct {
		to    transport.Addr
		errno uint32
		what  [3]uint8 // origin, type, code
		info  uint32
		kind  transport.HintKind
		mtu   int
	}{
		{to4, uint32(unix.ECONNREFUSED), [3]uint8{2, 3, 3}, 0, transport.HintUnreachable, 0},
		{to6, uint32(unix.ECONNREFUSED), [3]uint8{3, 1, 4}, 0, transport.HintUnreachable, 0},
		{to4, uint32(unix.EHOSTUNREACH), [3]uint8{2, 3, 1}, 0, 0, 0},
		{to4, uint32(unix.ECONNREFUSED), [3]uint8{2, 3, 2}, 0, 0, 0},
		{to6, uint32(unix.EACCES), [3]uint8{3, 1, 1}, 0, 0, 0},
		{to6, uint32(unix.ECONNREFUSED), [3]uint8{1, 3, 3}, 0, 0, 0},
		{to4, big, [3]uint8{2, 3, 4}, 1400, transport.HintTooBig, 1372},
		{to6, big, [3]uint8{3, 2, 0}, 1400, transport.HintTooBig, 1352},
		{to4, big, [3]uint8{1, 0, 0}, 1400, transport.HintTooBig, 1372},
		{to4, big, [3]uint8{2, 3, 4}, 0, transport.HintTooBig, 0},
		{to4, big, [3]uint8{2, 3, 4}, 5, transport.HintTooBig, 0},
		{to4, big, [3]uint8{2, 3, 4}, 1<<32 - 1, transport.HintTooBig, MaxMTU4},
	} {
		level, kind := int32(unix.SOL_IP), int32(unix.IP_RECVERR)
		if c.to == to6 {
			level, kind = unix.SOL_IPV6, unix.IPV6_RECVERR
		}
		b := appendControl(nil, unix.SOL_IP, unix.IP_TOS, 1)
		at := len(b) + unix.CmsgLen(0)
		b = appendControl(b, level, kind, 16)
		binary.NativeEndian.PutUint32(b[at:], c.errno)
		copy(b[at+4:], c.what[:])
		binary.NativeEndian.PutUint32(b[at+8:], c.info)
		h := transport.Hint{To: c.to, MTU: 77}
		e, ok := extendedError(b)
		told := ok && setHint(&h, &e)
		if told != (c.kind != 0) || told && (h.Kind != c.kind || h.MTU != c.mtu) {
			t.Errorf("%+v: told %v, %+v", c, told, h)
		}
		for n := range b {
			if _, ok := extendedError(b[:n]); ok && n < at+16 {
				t.Errorf("%d of %d bytes were taken", n, len(b))
			}
		}
	}
}
