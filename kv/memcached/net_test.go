package memcached

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/kv/mica"
)

// listen serves s over TCP until the test ends.
func listen(t *testing.T, s *Server) (dial func() net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
	return func() net.Conn {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
}

// TestConnections: many at a time count one number up; more than the limit are told so.
func TestConnections(t *testing.T) {
	s, _ := newServer(t, 3, mica.Config{})
	s.cfg.MaxConns = 8
	dial := listen(t, s)
	var all sync.WaitGroup
	first := dial()
	fmt.Fprint(first, "set n 0 0 1\r\n0\r\n")
	if got, err := bufio.NewReader(first).ReadString('\n'); got != "STORED\r\n" {
		t.Fatal(got, err)
	}
	for range 7 {
		c := dial()
		all.Go(func() {
			r := bufio.NewReader(c)
			for range 20 {
				fmt.Fprint(c, strings.Repeat("incr n 1\r\n", 10))
				for range 10 {
					if got, err := r.ReadString('\n'); err != nil || strings.Contains(got, "E") {
						t.Error(got, err)
						return
					}
				}
			}
		})
	}
	all.Wait()
	if got := play(s, "incr n 0\r\n", 100); got != "1400\r\n" {
		t.Error(got)
	}
	for s.open() < 8 { // the kernel has accepted, the server not yet
	}
	if got, _ := io.ReadAll(dial()); !strings.HasPrefix(string(got), "ERROR Too many") {
		t.Errorf("%q", got)
	}
	fmt.Fprint(first, "stats\r\nquit\r\n")
	got, err := io.ReadAll(first)
	if err != nil || !strings.Contains(string(got), "STAT curr_connections 8\r\n") ||
		!strings.HasSuffix(string(got), "END\r\n") {
		t.Errorf("%q, %v", got, err)
	}
}

// TestSlowClient: a client that reads nothing is cut off, and one that says nothing.
func TestSlowClient(t *testing.T) {
	s, _ := newServer(t, 1, mica.Config{})
	s.cfg.WriteTimeout, s.cfg.IdleTimeout = 50*time.Millisecond, 50*time.Millisecond
	dial := listen(t, s)
	slow, silent := dial(), dial()
	fmt.Fprintf(slow, "set a 0 0 1000000 noreply\r\n%s\r\n", strings.Repeat("x", 1_000_000))
	for range 50 { // 50 MB of answers
		if _, err := fmt.Fprint(slow, "get a\r\n"); err != nil {
			break
		}
	}
	for s.open() > 0 || s.total.Load() < 2 {
		_, _ = silent.Read(make([]byte, 1)) // until the server ends it
	}
	if got := play(s, "stats\r\n", 1000); !strings.Contains(got, "STAT idle_kicks 1\r\n") {
		t.Errorf("%q", got)
	}
}

// TestClosed: nothing is served after Close, and a flush for later does not come.
func TestClosed(t *testing.T) {
	s, _ := newServer(t, 1, mica.Config{})
	check(t, s, "flush_all 1000\n< OK\nflush_all 2000\n< OK", 100)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(ln); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	s.flushAfter(1)
	here, there := net.Pipe()
	go s.take(there)
	if _, err := io.ReadAll(here); err != nil {
		t.Error(err)
	}
}

// broken is a store that has been closed.
type broken struct{}

func (broken) Partitions() int                       { return 1 }
func (broken) Do(int, func(p *mica.Partition)) error { return errors.New("closed") }

// TestBrokenStore: connections end when the store has.
func TestBrokenStore(t *testing.T) {
	s := New(Config{Store: broken{}})
	for _, cmd := range []string{"get a", "set a 0 0 0\r\n", "delete a", "incr a 1", "touch a 1",
		"mg a", "ms a 0\r\n", "md a", "ma a", "gat 1 a", "stats", "append a 0 0 0\r\n"} {
		if got := play(s, cmd+"\r\nversion\r\n", 100); got != "" {
			t.Errorf("%s: %q", cmd, got)
		}
	}
}

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

// TestTooManyFiles: the port outlives a lack of files, and the operator is told.
func TestTooManyFiles(t *testing.T) {
	s, _ := newServer(t, 1, mica.Config{})
	var log bytes.Buffer
	s.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(&crowded{ln, 2}) }()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	say(t, c, "mn\r\n", "MN\r\n")
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if n := strings.Count(log.String(), syscall.EMFILE.Error()); n != 2 {
		t.Errorf("%d lines: %s", n, log.String())
	}
}
