package rc

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/rfp"
	"github.com/userspace-rpc/erpc/rfp/onesided"
)

// Roles of a child process: roleKey names one, addrKey the address of its peer.
const (
	roleKey = "ERPC_RC_TEST_ROLE"
	addrKey = "ERPC_RC_TEST_ADDR"
)

// TestMain lets the test binary be a process to be killed.
func TestMain(m *testing.M) {
	patience = testPatience
	role := os.Getenv(roleKey)
	if role == "" {
		os.Exit(m.Run())
	}
	run := map[string]func() error{"server": childServer, "client": childClient}[role]
	fmt.Fprintln(os.Stderr, run())
	os.Exit(1)
}

// childServer answers one client until it is killed.
func childServer() error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(ln.Addr())
	srv, err := echoServer()
	if err != nil {
		return err
	}
	for {
		if err := accept(ln, srv); err != nil {
			return err
		}
		for srv.Links() > 0 {
			rest(srv.Poll(8))
		}
	}
}

// accept lets a server answer the next client.
func accept(ln net.Listener, srv *rfp.Server) error {
	conn, err := ln.Accept()
	if err != nil {
		return err
	}
	l, err := Join(conn, rfp.ServerSpecs(geometry), rfp.ClientSpecs(geometry), there)
	if err != nil {
		return err
	}
	return srv.Serve(l)
}

func echoServer() (*rfp.Server, error) {
	srv, err := rfp.NewServer(rfp.ServerConfig{Geometry: geometry, Checksum: true,
		Clock: monotime.Now})
	if err == nil {
		srv.Handle(1, func(req, resp []byte) ([]byte, error) { return append(resp, req...), nil })
	}
	return srv, err
}

// childClient makes calls until it is killed.
func childClient() error {
	c, err := dial(os.Getenv(addrKey), rfp.Config{})
	if err != nil {
		return err
	}
	e := echoes{c: c}
	for told := false; c.Err() == nil; {
		if err := e.step(); err != nil {
			return err
		}
		if !told && e.ended > 100 {
			told = true
			fmt.Println("ready")
		}
	}
	return c.Err()
}

func dial(addr string, cfg rfp.Config) (*rfp.Client, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	l, err := Join(conn, rfp.ClientSpecs(geometry), rfp.ServerSpecs(geometry), here)
	if err != nil {
		return nil, err
	}
	cfg.Geometry, cfg.Checksum = geometry, true
	return rfp.NewClient(l, cfg)
}

// echoes keeps a client's slots full, and checks each answer.
type echoes struct {
	c            *rfp.Client
	begun, ended int
	failed       int
	ends         map[uint64]int
	last         error
	wrong        error
}

func (e *echoes) step() error {
	if e.ends == nil {
		e.ends = map[uint64]int{}
	}
	for e.c.Ready() {
		body := fmt.Appendf(nil, "call %d", e.begun)
		err := e.c.Send(&rfp.Call{Kind: 1, Body: body, Tag: uint64(e.begun),
			Done: func(tag uint64, resp []byte, err error) {
				e.ended++
				e.ends[tag]++
				switch {
				case err != nil:
					e.failed, e.last = e.failed+1, err
				case string(resp) != fmt.Sprintf("call %d", tag):
					e.wrong = fmt.Errorf("call %d: answer %q", tag, resp)
				}
			}})
		if err != nil {
			return err
		}
		e.begun++
	}
	rest(e.c.Poll(monotime.Now()))
	return e.wrong
}

// rest leaves the core to the kernel's own work on packets after a poll that found nothing.
func rest(found int) {
	if found == 0 {
		time.Sleep(20 * time.Microsecond)
	}
}

// child starts a process of this binary. The returned function waits for its next line.
func child(t *testing.T, role, addr string) (cmd *exec.Cmd, line func() string) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleKey+"="+role, addrKey+"="+addr)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	lines := bufio.NewScanner(out)
	return cmd, func() string {
		if !lines.Scan() {
			return ""
		}
		return lines.Text()
	}
}

// TestServerKilled kills the server's process while calls are under way. All of them end once, with
// the error that the peer has gone.
func TestServerKilled(t *testing.T) {
	needDevices(t)
	for _, mode := range []rfp.Mode{rfp.Fetch, rfp.Reply, rfp.Hybrid} {
		cmd, line := child(t, "server", "")
		addr := line()
		if addr == "" {
			t.Fatal("the child has ended")
		}
		c, err := dial(addr, rfp.Config{Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		e := echoes{c: c}
		for c.Err() == nil {
			if err := e.step(); err != nil && c.Err() == nil {
				t.Fatal(err)
			}
			if e.ended >= 100 && cmd.ProcessState == nil {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}
		}
		if e.ended != e.begun || len(e.ends) != e.ended || e.failed == 0 ||
			!errors.Is(e.last, onesided.ErrPeer) {
			t.Errorf("%v: %d calls, %d ended, %d of them different, %d failed: %v", mode, e.begun,
				e.ended, len(e.ends), e.failed, e.last)
		}
	}
}

// TestClientKilled kills a client's process while its calls are under way. The server notices, and
// another client's calls go on.
func TestClientKilled(t *testing.T) {
	needDevices(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	srv, err := echoServer()
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	dialed := make(chan error, 1)
	var c *rfp.Client
	go func() {
		var err error
		c, err = dial(ln.Addr().String(), rfp.Config{})
		dialed <- err
	}()
	if err := errors.Join(accept(ln, srv), <-dialed); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cmd, line := child(t, "client", ln.Addr().String())
	if err := accept(ln, srv); err != nil {
		t.Fatal(err)
	}
	works := make(chan string, 1)
	go func() { works <- line() }()
	e := echoes{c: c}
	for killed, after := false, 0; after < 100; {
		before := e.ended
		if err := e.step(); err != nil {
			t.Fatal(err)
		}
		srv.Poll(8)
		select {
		case word := <-works:
			if word == "" {
				t.Fatal("the child has ended")
			}
			killed = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		default:
		}
		if killed && srv.Links() == 1 {
			after += e.ended - before
		}
	}
	if st := srv.Stats(); st.Ended != 1 || st.Malformed != 0 || e.failed != 0 {
		t.Errorf("%+v, %d calls of the other client failed: %v", st, e.failed, e.last)
	}
}
