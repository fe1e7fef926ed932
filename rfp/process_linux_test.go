package rfp

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/rfp/onesided"
	"github.com/userspace-rpc/erpc/rfp/onesided/shm"
)

// Roles of a child process: RFP_CHILD names one, RFP_SOCKET the listener's path.
func TestMain(m *testing.M) {
	if role := os.Getenv("RFP_CHILD"); role != "" {
		run := map[string]func(path string) error{"server": childServer, "client": childClient}[role]
		if err := run(os.Getenv("RFP_SOCKET")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var processGeometry = Geometry{Slots: 8, Request: 256, Response: 256}

func echoServer() (*Server, error) {
	s, err := NewServer(ServerConfig{Geometry: processGeometry, Clock: monotime.Now})
	if err == nil {
		s.Handle(1, func(req, resp []byte) ([]byte, error) { return append(resp, req...), nil })
	}
	return s, err
}

// childServer answers one client until it is killed.
func childServer(path string) error {
	l, err := shm.Listen(path, ServerSpecs(processGeometry), ClientSpecs(processGeometry))
	if err != nil {
		return err
	}
	fmt.Println("ready")
	link, err := l.Accept()
	if err != nil {
		return err
	}
	s, err := echoServer()
	if err == nil {
		err = s.Serve(link)
	}
	if err != nil {
		return err
	}
	for s.Links() > 0 {
		if s.Poll(64) == 0 {
			runtime.Gosched()
		}
	}
	return nil
}

// childClient makes calls until it is killed.
func childClient(path string) error {
	c, err := dialEcho(path, Config{})
	if err != nil {
		return err
	}
	e := echoes{c: c}
	for told := false; c.Err() == nil; {
		if err := e.step(); err != nil {
			return err
		}
		if !told && e.ended > 1000 {
			told = true
			fmt.Println("ready")
		}
	}
	return c.Err()
}

func dialEcho(path string, cfg Config) (*Client, error) {
	cfg.Geometry = processGeometry
	link, err := shm.Dial(path, ClientSpecs(processGeometry), ServerSpecs(processGeometry))
	if err != nil {
		return nil, err
	}
	return NewClient(link, cfg)
}

// echoes keeps a client's slots full, and checks each answer.
type echoes struct {
	c            *Client
	begun, ended int
	failed       int
	last         error
	wrong        error
}

func (e *echoes) step() error {
	for e.c.Ready() {
		body := binary.LittleEndian.AppendUint64(nil, uint64(e.begun))
		err := e.c.Send(&Call{Kind: 1, Body: body, Tag: uint64(e.begun),
			Done: func(tag uint64, resp []byte, err error) {
				e.ended++
				switch {
				case err != nil:
					e.failed, e.last = e.failed+1, err
				case len(resp) != 8 || binary.LittleEndian.Uint64(resp) != tag:
					e.wrong = fmt.Errorf("call %d: answer %x", tag, resp)
				}
			}})
		if errors.Is(err, ErrBusy) {
			break
		}
		if err != nil {
			return err
		}
		e.begun++
	}
	if e.c.Poll(monotime.Now()) == 0 {
		runtime.Gosched()
	}
	return e.wrong
}

// child starts a process of this binary. The returned function waits for its word that it works.
func child(t *testing.T, role, path string) (cmd *exec.Cmd, ready func()) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "RFP_CHILD="+role, "RFP_SOCKET="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	return cmd, func() {
		t.Helper()
		if !bufio.NewScanner(out).Scan() {
			t.Fatal("the child has ended")
		}
	}
}

// TestServerKilled kills the server's process while calls are under way. All of them end.
func TestServerKilled(t *testing.T) {
	for _, mode := range []Mode{Fetch, Reply} {
		path := filepath.Join(t.TempDir(), "s")
		cmd, ready := child(t, "server", path)
		ready()
		c, err := dialEcho(path, Config{Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		e := echoes{c: c}
		for c.Err() == nil {
			if err := e.step(); err != nil && c.Err() == nil {
				t.Fatal(err)
			}
			if e.ended >= 1000 && cmd.ProcessState == nil {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}
		}
		if e.ended != e.begun || e.failed == 0 || !errors.Is(e.last, onesided.ErrPeer) {
			t.Errorf("%v: %d calls, %d ended, %d failed: %v", mode, e.begun, e.ended, e.failed, e.last)
		}
	}
}

// TestClientKilled kills a client's process while its calls are under way. The server notices, and
// another client's calls go on.
func TestClientKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := shm.Listen(path, ServerSpecs(processGeometry), ClientSpecs(processGeometry))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s, err := echoServer()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, err := dialEcho(path, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cmd, ready := child(t, "client", path)
	for range 2 {
		link, err := l.Accept()
		if err == nil {
			err = s.Serve(link)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	works := make(chan struct{})
	go func() {
		defer close(works)
		ready()
	}()
	e := echoes{c: c}
	killed, after := false, 0
	for after < 1000 {
		if err := e.step(); err != nil {
			t.Fatal(err)
		}
		s.Poll(64)
		select {
		case <-works:
			if !killed {
				killed = true
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}
		default:
		}
		if killed && s.Links() == 1 {
			after++
		}
	}
	if st := s.Stats(); st.Ended != 1 || st.Malformed != 0 || e.failed != 0 {
		t.Errorf("%+v, %d calls of the other client failed: %v", st, e.failed, e.last)
	}
}
