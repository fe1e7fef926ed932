package accept

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

// scarce is a listener whose Accept fails with each of the errors first, and with the last for ever
// if there is no other listener behind it.
type scarce struct {
	net.Listener
	errs []error
	met  chan struct{} // an error has been returned
}

func (s *scarce) Accept() (net.Conn, error) {
	if len(s.errs) == 0 {
		return s.Listener.Accept()
	}
	err := s.errs[0]
	if len(s.errs) > 1 || s.met == nil {
		s.errs = s.errs[1:]
	} else {
		select {
		case s.met <- struct{}{}:
		default:
		}
	}
	return nil, err
}

func full(e syscall.Errno) error {
	return &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", e)}
}

func local(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

// odd is an error of another listener, which may say that it passes.
type odd bool

func (odd) Error() string     { return "odd" }
func (o odd) Temporary() bool { return bool(o) }

// TestPasses: a connection is taken after errors that pass, and each is logged.
func TestPasses(t *testing.T) {
	inner := local(t)
	var log bytes.Buffer
	errs := []error{full(syscall.EMFILE), full(syscall.ENFILE), full(syscall.ENOBUFS),
		full(syscall.ENOMEM), odd(true)}
	ln := Patient(&scarce{Listener: inner, errs: errs}, slog.New(slog.NewTextHandler(&log, nil)))
	c, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = got.Close()
	if n := strings.Count(log.String(), "level=WARN"); n != 5 ||
		!strings.Contains(log.String(), syscall.EMFILE.Error()) {
		t.Errorf("%d lines: %s", n, log.String())
	}
}

// TestStays: the end of a listener is no error that passes.
func TestStays(t *testing.T) {
	inner := local(t)
	for _, err := range []error{net.ErrClosed, io.EOF, odd(false), full(syscall.EINVAL),
		full(syscall.EBADF)} {
		ln := Patient(&scarce{Listener: inner, errs: []error{err}}, slog.New(slog.DiscardHandler))
		if c, got := ln.Accept(); c != nil || !errors.Is(got, err) {
			t.Errorf("%v: %v, %v", err, c, got)
		}
	}
	if err := inner.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Patient(inner, nil).Accept(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// TestCloseWaits: Close ends an Accept that waits, and may be called again.
func TestCloseWaits(t *testing.T) {
	s := &scarce{Listener: local(t), errs: []error{full(syscall.EMFILE)}, met: make(chan struct{})}
	ln := Patient(s, slog.New(slog.DiscardHandler))
	ended := make(chan error)
	go func() {
		_, err := ln.Accept()
		ended <- err
	}()
	<-s.met
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if err := ln.Close(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
