//go:build linux

package ud

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/verbs"
	"github.com/userspace-rpc/erpc/transport"
)

// packet makes an item of n bytes.
func packet(to transport.Addr, n int) transport.TxItem {
	return transport.TxItem{Dst: to, Head: bytes.Repeat([]byte{byte(n)}, n)}
}

// TestConfigErrors: what does not fit the machine is named.
func TestConfigErrors(t *testing.T) {
	needLab(t)
	for _, v := range []struct {
		addr  string
		cfg   Config
		field string
		err   error
	}{
		{hostA, Config{Device: "mlx5_0"}, "Device", ErrNoDevice},
		{hostA, Config{Port: 2}, "Port", ErrNoPort},
		{hostA, Config{Port: 256}, "Port", ErrNoPort},
		{hostA, Config{GID: "99"}, "GID", ErrNoGID},
		{hostA, Config{GID: "10.9.0.77"}, "GID", ErrNoGID},
		{hostA, Config{GID: "nonsense"}, "GID", ErrNoGID},
		{"10.9.0.77:0", Config{}, "addr", ErrNoGID},
		{"127.0.0.1:0", Config{}, "addr", ErrNoGID},
		{hostA, Config{MTU: 4097}, "MTU", ErrMTU},
		{hostA, Config{RecvRing: 1 << 17}, "RecvRing", nil},
		{hostA, Config{DSCP: 64}, "DSCP", nil},
	} {
		c, err := Listen(v.addr, v.cfg)
		if err == nil {
			c.Close()
		}
		e, ok := errors.AsType[*ConfigError](err)
		if !ok || e.Field != v.field || v.err != nil && !errors.Is(err, v.err) {
			t.Errorf("Listen(%s, %+v): %v", v.addr, v.cfg, err)
		}
	}
	if _, err := Listen("nonsense", Config{}); !errors.Is(err, transport.ErrBadAddress) {
		t.Errorf("a bad address: %v", err)
	}
	for cfg, want := range map[Config]string{
		{}:                "rxe0", // the first
		{Device: "rxe1"}:  "rxe1",
		{GID: "10.9.0.2"}: "rxe1",
	} {
		c, err := Listen(":0", cfg)
		if err != nil {
			t.Errorf("Listen(:0, %+v): %v", cfg, err)
			continue
		}
		if name, _, _ := c.Device(); name != want || !c.h.gid.GID.Is4() ||
			c.LocalAddr().AddrPort().Addr() != c.h.gid.GID.Addr() {
			t.Errorf("Listen(:0, %+v) is on %s at %v with GID %v", cfg, name, c.LocalAddr(), c.h.gid)
		}
		c.Close()
	}
}

// TestMeeting: whom one cannot meet is named, too.
func TestMeeting(t *testing.T) {
	a := listenAt(t, hostA, Config{MeetTimeout: 300 * time.Millisecond})
	gone := listenAt(t, hostB, Config{})
	text := gone.LocalAddr().String()
	gone.Close()
	// Nobody there; nobody answers.
	for _, text := range []string{text, "10.9.0.1:4791", "192.0.2.1:1"} {
		_, err := a.Resolve(text)
		if e, ok := errors.AsType[*PeerError](err); !ok || e.Addr != text ||
			!errors.Is(err, ErrNoAnswer) {
			t.Errorf("Resolve(%s): %v", text, err)
		}
	}
	// Somebody with another kind of GID.
	v6 := listenAt(t, hostB, Config{GID: "0"})
	if k := kind(v6.h.attr.LinkLayer, v6.h.gid); k == kindRoCE2v4 {
		t.Fatalf("GID 0 is of IPv4: %+v", v6.h.gid)
	}
	if _, err := a.Resolve(v6.LocalAddr().String()); !errors.Is(err, ErrMismatch) {
		t.Errorf("another kind of GID: %v", err)
	}
}

// TestAddressIsNotTakenOver: a query that claims the address of somebody else changes nothing.
func TestAddressIsNotTakenOver(t *testing.T) {
	a, b := pairOf(t, Config{})
	forger, err := net.Dial("udp", b.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer forger.Close()
	claim := a.meet.own
	claim.kind, claim.query, claim.qpn, claim.qkey = cardQuery, 77, claim.qpn+1, 5
	claim.gid = b.h.gid.GID // the forger's address is that of b's host
	for _, c := range []card{claim, func() card { c := claim; c.port = b.meet.own.port; return c }()} {
		var text [cardSize]byte
		c.encode(&text)
		if _, err := forger.Write(text[:]); err != nil {
			t.Fatal(err)
		}
	}
	introduce(t, b, b) // b has read the forged queries when it answers its own
	introduce(t, a, b)
	for range 3 {
		transmit(t, b, packet(a.LocalAddr(), 50), packet(b.LocalAddr(), 60))
		receive(t, a, 1)
		if p := receive(t, b, 1); p[0].From != b.LocalAddr() {
			t.Errorf("from %v", p[0].From)
		}
	}
}

// TestPeerComesBack: an endpoint that is opened again on its address takes it over.
func TestPeerComesBack(t *testing.T) {
	b := listenAt(t, hostB, Config{})
	a := listenAt(t, hostA, Config{})
	addr := a.LocalAddr()
	for round := range 5 {
		introduce(t, a, b)
		transmit(t, a, packet(b.LocalAddr(), 10+round))
		if p := receive(t, b, 1); p[0].From != addr {
			t.Fatalf("from %v", p[0].From)
		}
		transmit(t, b, packet(addr, 20))
		receive(t, a, 1)
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		a = listenAt(t, addr.String(), Config{})
	}
	if n := len(b.peers.byAddr); n != 1 {
		t.Errorf("%d peers", n)
	}
}

// TestFirstPacketMeets: packets to an address that was never resolved arrive after the first one.
func TestFirstPacketMeets(t *testing.T) {
	a, b := listenAt(t, hostA, Config{}), listenAt(t, hostB, Config{})
	pkts := make([]transport.RxPacket, 8)
	for end := time.Now().Add(patience); ; {
		transmit(t, a, packet(b.LocalAddr(), 100))
		n, err := b.RxBurst(pkts)
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("nothing arrived")
		}
	}
	if pkts[0].From != a.LocalAddr() || a.Stats().TxDropped == 0 {
		t.Errorf("from %v, %+v", pkts[0].From, a.Stats())
	}
}

// TestSmallerMTU: peers of different MTU use the smaller one.
func TestSmallerMTU(t *testing.T) {
	a, b := listenAt(t, hostA, Config{}), listenAt(t, hostB, Config{MTU: 1024})
	introduce(t, a, b)
	if p := a.Path(b.LocalAddr()); p.MTU != 1024 || !p.Checksummed || p.Shared || p.Private {
		t.Errorf("Path %+v", p)
	}
	if p := a.Path(transport.Addr{}); p.MTU != a.Caps().MTU {
		t.Errorf("Path to nowhere %+v", p)
	}
	transmit(t, a, packet(b.LocalAddr(), 1025), packet(b.LocalAddr(), 1024))
	if p := receive(t, b, 1); len(p[0].Data) != 1024 {
		t.Errorf("%d bytes arrived", len(p[0].Data))
	}
	if s := a.Stats(); s.TxDropped != 1 {
		t.Errorf("%+v", s)
	}
	transmit(t, b, packet(a.LocalAddr(), 1024))
	receive(t, a, 1)
}

// TestForeignPackets: datagrams of nobody who was introduced are counted and dropped, and
// cost nothing else.
func TestForeignPackets(t *testing.T) {
	a, b := pairOf(t, Config{RecvRing: 128})
	// A stranger has guessed queue pair and key. Another one has a wrong key and gets nowhere.
	s := listenAt(t, hostA, Config{})
	h, err := s.handles.get(way{gid: b.h.gid.GID})
	if err != nil {
		t.Fatal(err)
	}
	for round := range 100 {
		wr := make([]verbs.SendWR, 8)
		for i := range wr {
			wr[i] = verbs.SendWR{AH: h.ah.Handle(), QPN: b.h.qp.Num(), QKey: b.h.qkey, Opcode: verbs.OpSend,
				Flags: verbs.Inline,
				Num:   1, Pieces: [2]verbs.Piece{{Addr: s.h.tx.mr.Base(), Len: uint32(i),
					LKey: s.h.tx.mr.LKey()}}}
			if i == 7 {
				wr[i].QKey ^= 1
			}
			if s.tx.posted++; s.tx.posted%s.tx.every == 0 {
				wr[i].ID, wr[i].Flags = s.tx.posted, verbs.Inline|verbs.Signaled
			}
		}
		for end := time.Now().Add(patience); s.tx.room(64) < 16; {
			if time.Now().After(end) {
				t.Fatal("the stranger's queue is full")
			}
		}
		if n, err := s.h.qp.PostSend(wr); n != len(wr) || err != nil {
			t.Fatal(n, err)
		}
		transmit(t, a, packet(b.LocalAddr(), 1+round))
		if p := receive(t, b, 1); len(p[0].Data) != 1+round || p[0].From != a.LocalAddr() {
			t.Fatalf("round %d: %d bytes from %v", round, len(p[0].Data), p[0].From)
		}
	}
	pkts := make([]transport.RxPacket, 8)
	for end := time.Now().Add(patience); b.Rejects().Foreign < 600; {
		if n, err := b.RxBurst(pkts); n != 0 || err != nil {
			t.Fatal(n, err)
		}
		if time.Now().After(end) {
			t.Fatalf("%+v", b.Rejects())
		}
	}
	if r := b.Rejects(); r != (Rejects{Foreign: 600}) {
		t.Errorf("%+v", r)
	}
}

// TestBrokenQueuePair: a queue pair that falls into an error state is reset, and packets flow
// again.
func TestBrokenQueuePair(t *testing.T) {
	a, b := pairOf(t, Config{})
	for round := range 4 {
		c := []*Conn{a, b}[round%2]
		if err := c.h.qp.Modify(verbs.QPAttr{State: verbs.StateErr}); err != nil {
			t.Fatal(err)
		}
		before := c.Resets()
		pkts := make([]transport.RxPacket, 8)
		arrived := 0
		for end := time.Now().Add(patience); arrived < 2; {
			transmit(t, a, packet(b.LocalAddr(), 100))
			transmit(t, b, packet(a.LocalAddr(), 100))
			arrived = 0
			for _, x := range []*Conn{a, b} {
				if err := x.Wait(time.Millisecond); err != nil {
					t.Fatal(err)
				}
				n, err := x.RxBurst(pkts)
				if err != nil {
					t.Fatal(err)
				}
				arrived += min(n, 1)
			}
			if time.Now().After(end) {
				t.Fatalf("round %d: nothing arrives, %d resets", round, c.Resets())
			}
		}
		if c.Resets() == before {
			t.Error("the queue pair was not reset")
		}
	}
}

// TestPeersAreLimited: more peers than the table holds come and go, and all can talk.
func TestPeersAreLimited(t *testing.T) {
	b := listenAt(t, hostB, Config{MaxPeers: 2})
	for i := range 6 {
		a := listenAt(t, hostA, Config{RecvRing: 64})
		introduce(t, a, b)
		transmit(t, a, packet(b.LocalAddr(), 10+i))
		p := receive(t, b, 1)
		if len(p[0].Data) != 10+i || p[0].From != a.LocalAddr() {
			t.Fatalf("%d bytes from %v", len(p[0].Data), p[0].From)
		}
		transmit(t, b, packet(p[0].From, 20))
		receive(t, a, 1)
		if n, m := len(b.peers.byAddr), len(b.peers.bySrc); n > 2 || m != n {
			t.Fatalf("%d and %d peers", n, m)
		}
	}
	if n := len(b.handles.made); n != 2 { // the own one and that of the other host
		t.Errorf("%d address handles", n)
	}
}

// TestDeviceRemoval removes a device under load: both loops go on or end with errors that say
// so, the removal completes, and a new endpoint works on the device that comes back.
func TestDeviceRemoval(t *testing.T) {
	server, client := listenAt(t, hostB, Config{}), listenAt(t, hostA, Config{})
	s, err := erpc.NewServer(erpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.HandleInline(1, func(r erpc.ReqHandle) { _ = r.RespondBytes(r.Data()) }); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(server) }()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := erpc.Dial(ctx, client, server.LocalAddr().String(), erpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	busy := make(chan struct{})
	go func() {
		for i := 0; ; i++ {
			if _, err := c.Call(ctx, 1, make([]byte, 1+i*997%20_000)); err != nil {
				failed <- err
				return
			}
			if i == 100 {
				close(busy)
			}
		}
	}()
	<-busy
	command(t, "rdma link del rxe1") // returns when nobody uses it any more
	defer func() {
		if names, _ := verbs.Devices(); len(names) < 2 {
			command(t, "rdma link add rxe1 type rxe netdev vb")
		}
	}()
	err = <-served
	if e, ok := errors.AsType[*DeviceError](err); !ok || e.Device != "rxe1" ||
		!errors.Is(err, ErrDeviceGone) {
		t.Errorf("the server's loop ends with %v", err)
	}
	if err := <-failed; !errors.Is(err, erpc.ErrPeerLost) && !errors.Is(err, erpc.ErrClosed) {
		t.Errorf("the client's call ends with %v", err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("the client's device is there, and its loop ended with %v", err)
	}
	command(t, "rdma link add rxe1 type rxe netdev vb")
	a, b := pairOf(t, Config{})
	transmit(t, a, packet(b.LocalAddr(), 100))
	receive(t, b, 1)
}

// TestExhaustion limits how many queue pairs this process may have, with the kernel's own
// means (cgroup v2, rdma controller), and opens endpoints until there are none left.
func TestExhaustion(t *testing.T) {
	needLab(t)
	const root = "/sys/fs/cgroup"
	if _, err := os.Stat(root + "/cgroup.controllers"); err != nil {
		command(t, "mount -t cgroup2 none "+root)
	}
	group := root + "/few"
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(root+"/cgroup.subtree_control", "+rdma")
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Fatal(err)
	}
	write(group+"/cgroup.procs", "0")
	defer func() {
		write(root+"/cgroup.procs", "0")
		if err := os.Remove(group); err != nil {
			t.Error(err)
		}
	}()
	a, b := pairOf(t, Config{RecvRing: 64})
	write(group+"/rdma.max", "rxe0 hca_object=40")
	var opened []*Conn
	for range 100 {
		c, err := Listen(hostA, Config{RecvRing: 64})
		if err != nil {
			if !errors.Is(err, ErrExhausted) && !errors.Is(err, ErrMemlock) {
				t.Errorf("none left: %v", err)
			}
			break
		}
		opened = append(opened, c)
	}
	if len(opened) == 0 || len(opened) == 100 {
		t.Fatalf("%d endpoints", len(opened))
	}
	transmit(t, a, packet(b.LocalAddr(), 100)) // the others do not suffer
	receive(t, b, 1)
	for _, c := range opened {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	c, err := Listen(hostA, Config{RecvRing: 64}) // what was freed can be used again
	if err != nil {
		t.Fatal(err)
	}
	introduce(t, c, b)
	c.Close()
}
