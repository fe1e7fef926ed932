//go:build unix

package echo

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// udpServing starts a server; stop ends it and waits.
func udpServing(t *testing.T, z Sizes) (srv *udpServer, stop func()) {
	t.Helper()
	s, err := listenUDPEcho(z)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve() }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Serve: %v", err)
		}
	}
	t.Cleanup(stop)
	return s.(*udpServer), stop
}

func udpDial(t *testing.T, addr string, z Sizes) *udpConn {
	t.Helper()
	c, err := dialUDPEcho(t.Context(), addr, z)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c.(*udpConn)
}

// TestUDPWindow: many datagrams are under way, and every response is right.
func TestUDPWindow(t *testing.T) {
	const window, total = 1000, 20_000
	z := Sizes{Request: 40, Response: 40}
	srv, _ := udpServing(t, z)
	c := udpDial(t, srv.Addr(), z)
	sent, done := uint64(0), 0
	request := Payload(z.Request)
	send := func() {
		Stamp(request, sent)
		c.Send(sent, request)
		sent++
	}
	want := Payload(z.Request)
	got := func(id uint64, response []byte) error {
		Stamp(want, id)
		if done++; sent < total {
			send()
		}
		return Check(want, nil, response, true)
	}
	for range window {
		send()
	}
	for done < total { // a loss ends it with an error
		if _, err := c.Poll(got); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUDPLiar: a client that breaks the rules is dropped, and the others go on.
func TestUDPLiar(t *testing.T) {
	z := Sizes{Request: 8, Response: 8}
	srv, _ := udpServing(t, z)
	honest := udpDial(t, srv.Addr(), z).NewCall()
	for name, sent := range map[string][]byte{
		"size":    bytesOf(1<<31, echoType, 1, nil),
		"type":    bytesOf(0, echoType+1, 1, nil),
		"chops":   bytesOf(8, echoType, 1, nil),
		"garbage": []byte("garbage"),
		"large":   make([]byte, udpDatagram+1),
	} {
		liar := udpDial(t, srv.Addr(), z)
		if ok, err := liar.pipe.fd.Send(sent); !ok || err != nil {
			t.Fatal(ok, err)
		}
		// The server's farewell is the answer, or that its socket is closed.
		if _, err := liar.NewCall()(t.Context(), Payload(8)); err == nil ||
			errors.Is(err, errLost) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := honest(t.Context(), Payload(8)); err != nil {
			t.Errorf("%s: the honest client: %v", name, err)
		}
	}
	if n := srv.clients.Load(); n != 1 {
		t.Errorf("%d clients are left", n)
	}
}

// TestUDPStrangers: what is no hello gets no answer and opens nothing.
func TestUDPStrangers(t *testing.T) {
	z := Sizes{Request: 8, Response: 8}
	srv, _ := udpServing(t, z)
	stranger, err := net.Dial("udp4", srv.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stranger.Close() }()
	for _, b := range [][]byte{nil, []byte("h"), []byte(hello[1:]), []byte(hello + "!"),
		make([]byte, 60_000)} {
		if _, err := stranger.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	// The server reads in order: once this client has its answer, the others are done with.
	c := udpDial(t, srv.Addr(), z)
	if n := srv.clients.Load(); n != 1 {
		t.Errorf("%d clients", n)
	}
	// A stranger's datagrams do not reach the client's socket on the server.
	if _, err := stranger.Write([]byte(hello)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	n, err := stranger.Read(b)
	if err != nil || n != len(hello)+2 || string(b[:len(hello)]) != hello {
		t.Fatalf("%q, %v", b[:n], err)
	}
	if _, err := c.NewCall()(t.Context(), Payload(8)); err != nil {
		t.Error(err)
	}
}

// TestUDPCrowd: there are no more clients than there may be, and a place that is left is taken.
func TestUDPCrowd(t *testing.T) {
	z := Sizes{Request: 8, Response: 8}
	srv, _ := udpServing(t, z)
	first := udpDial(t, srv.Addr(), z)
	srv.clients.Add(udpClients - 1)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := dialUDPEcho(ctx, srv.Addr(), z); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one too many: %v", err) // without the limit the server answers at once
	}
	if _, err := first.NewCall()(t.Context(), Payload(8)); err != nil {
		t.Error(err)
	}
	srv.clients.Add(1 - udpClients)
	if _, err := udpDial(t, srv.Addr(), z).NewCall()(t.Context(), Payload(8)); err != nil {
		t.Error(err)
	}
}

// TestUDPClientLeaves: with requests and responses under way; its place is free, and the others
// go on.
func TestUDPClientLeaves(t *testing.T) {
	z := Sizes{Request: 5000, Response: 5000}
	srv, _ := udpServing(t, z)
	stays := udpDial(t, srv.Addr(), z).NewCall()
	for range 5 {
		leaves, err := dialUDPEcho(t.Context(), srv.Addr(), z)
		if err != nil {
			t.Fatal(err)
		}
		for id := range uint64(20) {
			leaves.(Stream).Send(id, Payload(z.Request))
		}
		_, err = leaves.(Stream).Poll(func(uint64, []byte) error { return nil })
		if err = errors.Join(err, leaves.Close()); err != nil {
			t.Fatal(err)
		}
		request := Payload(z.Request)
		response, err := stays(t.Context(), request)
		if err = errors.Join(err, Check(request, nil, response, true)); err != nil {
			t.Error(err)
		}
	}
	for srv.clients.Load() != 1 { // the test's own time limit ends it
		if _, err := stays(t.Context(), Payload(z.Request)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUDPServerLeaves: its clients notice.
func TestUDPServerLeaves(t *testing.T) {
	z := Sizes{Request: 8, Response: 8}
	srv, stop := udpServing(t, z)
	var list []*udpConn
	for range 3 {
		c := udpDial(t, srv.Addr(), z)
		if _, err := c.NewCall()(t.Context(), Payload(8)); err != nil {
			t.Fatal(err)
		}
		list = append(list, c)
	}
	addr := srv.Addr()
	stop()
	for _, c := range list {
		_, err := c.NewCall()(t.Context(), Payload(8))
		if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, errLost) {
			t.Errorf("after the server's end: %v", err)
		}
	}
	_, err := dialUDPEcho(t.Context(), addr, z)
	if !errors.Is(err, unix.ECONNREFUSED) ||
		!strings.Contains(err.Error(), "no answer from a server") {
		t.Errorf("dial: %v", err)
	}
}

// TestUDPBadWelcome: answers to a hello that are none.
func TestUDPBadWelcome(t *testing.T) {
	fake, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = fake.Close() }()
	good := binary.LittleEndian.AppendUint16([]byte(hello), 9)
	for _, answer := range [][]byte{nil, good[:9], append(slices.Clone(good), 1),
		[]byte("0123456789")} {
		go func() {
			if _, from, err := fake.ReadFromUDPAddrPort(make([]byte, 100)); err == nil {
				_, _ = fake.WriteToUDPAddrPort(answer, from)
			}
		}()
		_, err := dialUDPEcho(t.Context(), fake.LocalAddr().String(), Sizes{})
		if err == nil || !strings.Contains(err.Error(), "no answer to hello") {
			t.Errorf("%q: %v", answer, err)
		}
	}
}

// TestTakePackets: the socket lives on without its connection, and does not wait.
func TestTakePackets(t *testing.T) {
	other, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	to := other.LocalAddr().(*net.UDPAddr)
	c, err := net.DialUDP("udp4", nil, to)
	if err != nil {
		t.Fatal(err)
	}
	from := c.LocalAddr().(*net.UDPAddr)
	fd, err := takePackets(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the connection was not closed: %v", err)
	}
	b := make([]byte, 10)
	if n, ok, err := fd.Recv(b); n != 0 || ok || err != nil {
		t.Errorf("nothing came: %d, %v, %v", n, ok, err)
	}
	if ok, err := fd.Send([]byte("abc")); !ok || err != nil {
		t.Errorf("send: %v, %v", ok, err)
	}
	if n, at, err := other.ReadFromUDP(b); n != 3 || at.Port != from.Port || err != nil {
		t.Errorf("the other side: %d from %v, %v", n, at, err)
	}
	if _, err := other.WriteToUDP(nil, from); err != nil {
		t.Fatal(err)
	}
	for { // loopback
		n, ok, err := fd.Recv(b)
		if n != 0 || err != nil {
			t.Errorf("an empty datagram: %d, %v", n, err)
		}
		if ok || err != nil {
			break
		}
	}
	if err := fd.connect(netip.MustParseAddrPort("[::1]:9")); err == nil {
		t.Error("connected an IPv4 socket with ::1")
	}
	if err := fd.Close(); err != nil {
		t.Error(err)
	}
}
