//go:build unix

package echo

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// tcpServing starts a server; stop ends it and waits.
func tcpServing(t *testing.T, z Sizes, prepare func(*tcpServer)) (addr string, stop func()) {
	t.Helper()
	srv, err := listenTCPEcho(z)
	if err != nil {
		t.Fatal(err)
	}
	if prepare != nil {
		prepare(srv.(*tcpServer))
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve() }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Serve: %v", err)
		}
	}
	t.Cleanup(stop)
	return srv.Addr(), stop
}

func tcpDial(t *testing.T, addr string, z Sizes) *tcpConn {
	t.Helper()
	c, err := dialTCPEcho(t.Context(), addr, z)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c.(*tcpConn)
}

// tiny makes a socket's buffer for sending as small as the system lets it be. A tiny one
// for receiving would make TCP wait for its timers.
func tiny(t *testing.T, fd int) {
	t.Helper()
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 1024); err != nil {
		t.Fatal(err)
	}
}

// TestTCPTinyBuffers: more is under way than both sides' sockets and the server's backlog
// hold, so each side reads while it cannot write.
func TestTCPTinyBuffers(t *testing.T) {
	const window, total = 40, 60
	z := Sizes{Request: 100_000, Response: 100_000}
	addr, _ := tcpServing(t, z, func(s *tcpServer) {
		raw, err := s.listener.(*net.TCPListener).SyscallConn()
		if err == nil {
			err = raw.Control(func(fd uintptr) { tiny(t, int(fd)) }) // its connections inherit them
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	c := tcpDial(t, addr, z)
	tiny(t, int(c.pipe.fd.(sysFD)))
	request := Payload(z.Request)
	sent, done := uint64(0), uint64(0)
	send := func() {
		Stamp(request, sent)
		c.Send(sent, request)
		sent++
	}
	got := func(id uint64, response []byte) error {
		want := Payload(z.Request)
		Stamp(want, done)
		if id != done {
			t.Errorf("response %d, want %d", id, done)
		}
		if done++; sent < total {
			send()
		}
		return Check(want, nil, response, true)
	}
	for range window {
		send()
	}
	hang, cancel := context.WithTimeout(t.Context(), time.Minute) // it takes no second
	defer cancel()
	partly := false
	for done < total {
		if _, err := c.Poll(got); err != nil {
			t.Fatal(err)
		}
		partly = partly || c.pipe.sent > 0
		if hang.Err() != nil {
			t.Fatalf("%d of %d responses; %d bytes not sent", done, total, len(c.pipe.out)-c.pipe.sent)
		}
	}
	if !partly {
		t.Error("the socket took everything at once")
	}
}

// TestTCPLiar: who breaks the rules loses its connection, and the others go on.
func TestTCPLiar(t *testing.T) {
	z := Sizes{Request: 8, Response: 8}
	addr, _ := tcpServing(t, z, nil)
	honest := tcpDial(t, addr, z).NewCall()
	for name, sent := range map[string][]byte{
		"size":  bytesOf(1<<31, echoType, 1, nil),
		"type":  bytesOf(0, echoType+1, 1, nil),
		"chops": bytesOf(8, echoType, 1, nil),
	} {
		liar, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = liar.Write(sent); err == nil && name == "chops" {
			err = liar.(*net.TCPConn).CloseWrite()
		}
		if err != nil {
			t.Fatal(err)
		}
		if n, err := liar.Read(make([]byte, 100)); n != 0 || err == nil {
			t.Errorf("%s: %d bytes of an answer, %v", name, n, err)
		}
		if _, err := honest(t.Context(), Payload(8)); err != nil {
			t.Errorf("%s: the honest client: %v", name, err)
		}
		_ = liar.Close()
	}
}

// TestTCPClientLeaves: with requests and responses under way; the others go on.
func TestTCPClientLeaves(t *testing.T) {
	z := Sizes{Request: 100_000, Response: 100_000}
	addr, _ := tcpServing(t, z, nil)
	stays := tcpDial(t, addr, z).NewCall()
	for range 5 {
		leaves, err := dialTCPEcho(t.Context(), addr, z)
		if err != nil {
			t.Fatal(err)
		}
		for id := range uint64(50) {
			leaves.(Stream).Send(id, Payload(z.Request))
		}
		// One poll is enough for some of them.
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
}

// TestTCPServerLeaves: its clients notice, and it closes its sockets.
func TestTCPServerLeaves(t *testing.T) {
	z := Sizes{Request: 8, Response: 8}
	addr, stop := tcpServing(t, z, nil)
	var list []*tcpConn
	for range 3 {
		c := tcpDial(t, addr, z)
		if _, err := c.NewCall()(t.Context(), Payload(8)); err != nil {
			t.Fatal(err)
		}
		list = append(list, c)
	}
	stop()
	for _, c := range list {
		_, err := c.NewCall()(t.Context(), Payload(8))
		if err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("after the server's end: %v", err)
		}
	}
}

// TestTakeFD: the socket lives on without its connection, does not wait and does not delay.
func TestTakeFD(t *testing.T) {
	l, err := listenTCP()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	other, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.TCPConn).SetNoDelay(false); err != nil {
		t.Fatal(err)
	}
	fd, err := takeFD(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the connection was not closed: %v", err)
	}
	v, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NODELAY)
	if v == 0 || err != nil {
		t.Errorf("TCP_NODELAY %d, %v", v, err)
	}
	if v, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); v&unix.FD_CLOEXEC == 0 || err != nil {
		t.Errorf("F_GETFD %#x, %v", v, err)
	}
	b := make([]byte, 10)
	if n, err := fd.Read(b); n != 0 || err != nil {
		t.Errorf("nothing came: %d, %v", n, err)
	}
	if n, err := fd.Write([]byte("abc")); n != 3 || err != nil {
		t.Errorf("write: %d, %v", n, err)
	}
	if n, err := io.ReadFull(other, b[:3]); err != nil {
		t.Errorf("the other side: %d, %v", n, err)
	}
	_ = other.Close()
	var n int
	for n, err = fd.Read(b); n == 0 && err == nil; n, err = fd.Read(b) {
	}
	if err != io.EOF {
		t.Errorf("at the end: %d, %v", n, err)
	}
	if err := fd.Close(); err != nil {
		t.Error(err)
	}
	a, z := net.Pipe()
	if _, err := takeFD(a); err == nil {
		t.Error("took the socket of a connection that has none")
	}
	if _, err := z.Read(b); err != io.EOF {
		t.Errorf("and did not close it: %v", err)
	}
}
