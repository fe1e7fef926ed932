package rdma

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"syscall"
	"testing"
)

// crowded is a listener in a process that has as many files as it may have: the first connections
// cannot be taken.
type crowded struct {
	net.Listener
	left int
}

func (l *crowded) Accept() (net.Conn, error) {
	if l.left--; l.left >= 0 {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

// TestTooManyFiles: a server meets clients after a lack of files. It needs no device: the client
// says no hello, and is told so.
func TestTooManyFiles(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(&crowded{ln, 2}, Config{Clients: 1, Logger: slog.New(slog.DiscardHandler)})
	ended := make(chan error, 1)
	go func() {
		err := s.meetAll()
		_ = ln.Close() // so the client does not wait for ever
		ended <- err
	}()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := say(conn, "what"); err != nil {
		t.Fatal(err)
	}
	var o offer
	if err := hear(conn, &o); err != nil || o.Error == "" {
		t.Errorf("%+v, %v", o, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	s.all.Wait()
}
