//go:build linux

package debug

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/udp"
	"golang.org/x/sys/unix"
)

// rig is a server, a client of it, and a debug socket for both.
type rig struct {
	server *erpc.Server
	client *erpc.Client
	socket *Socket
	ask    *Client
}

// typeEcho answers with the request, typeFail with an error.
const (
	typeEcho = 1
	typeFail = 2
)

func newRig(t *testing.T, cfg Config) *rig {
	t.Helper()
	w := new(rig)
	var err error
	if w.server, err = erpc.NewServer(erpc.Config{}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		w.server.Handle(typeEcho, func(_ context.Context, b []byte) ([]byte, error) { return b, nil }),
		w.server.Handle(typeFail, func(context.Context, []byte) ([]byte, error) {
			return nil, &erpc.Error{Code: erpc.CodeInternal}
		})); err != nil {
		t.Fatal(err)
	}
	tr := listenUDP(t)
	served := make(chan error, 1)
	go func() { served <- w.server.Serve(tr) }()
	// A Loop of its own: one of another test's Clients may be recording.
	if w.client, err = erpc.Dial(t.Context(), listenUDP(t), tr.LocalAddr().String(),
		erpc.Config{MaxSessions: 1 << 10}); err != nil {
		t.Fatal(err)
	}
	if cfg.Path == "" {
		cfg.Path = filepath.Join(t.TempDir(), "s")
	}
	if w.socket, err = Listen(cfg, w.server, w.client); err != nil {
		t.Fatal(err)
	}
	w.ask = NewClient(cfg.Path)
	t.Cleanup(func() {
		w.ask.Close()
		if err := errors.Join(w.socket.Close(), w.client.Close(), w.server.Close()); err != nil {
			t.Error(err)
		}
		<-served
	})
	return w
}

func listenUDP(t *testing.T) transport.Transport {
	t.Helper()
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// call makes n calls.
func (w *rig) call(t *testing.T, n int) {
	t.Helper()
	for range n {
		if _, err := w.client.Call(t.Context(), typeEcho, []byte("hello")); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSocket: a peer sees the snapshots and the records of both loops.
func TestSocket(t *testing.T) {
	w := newRig(t, Config{TypeNames: map[uint8]string{typeEcho: "echo"}})
	ctx := t.Context()
	about, err := w.ask.About(ctx)
	if err != nil || about.PID != os.Getpid() || about.Loops != 2 || about.Recording != 0 ||
		about.TypeNames[typeEcho] != "echo" {
		t.Fatalf("%+v, %v", about, err)
	}
	if _, err := w.ask.Snapshots(ctx, 4); err != nil { // counting by type begins
		t.Fatal(err)
	}
	if err := w.ask.Record(ctx, 1000); err != nil {
		t.Fatal(err)
	}
	const n = 7
	w.call(t, n)
	snaps, err := w.ask.Snapshots(ctx, 4)
	if err != nil || len(snaps) != 2 {
		t.Fatalf("%d snapshots, %v", len(snaps), err)
	}
	for _, s := range snaps {
		if s.Late || len(s.Types) != 1 || len(s.Sessions) == 0 {
			t.Fatalf("%+v", s)
		}
		c := s.Types[0].Client
		if c == nil {
			c = s.Types[0].Server
		}
		if c.Count() != n || c.Latency.Count != n {
			t.Errorf("%d calls, %d latencies", c.Count(), c.Latency.Count)
		}
	}
	if about, err := w.ask.About(ctx); err != nil || about.Recording < 1000 {
		t.Errorf("%+v, %v", about, err)
	}
	dumps, err := w.ask.Flight(ctx)
	if err != nil || len(dumps) != 2 {
		t.Fatalf("%d dumps, %v", len(dumps), err)
	}
	for _, d := range dumps {
		if len(d.Calls()) != n || d.Gap() != "" {
			t.Errorf("%d calls, %q", len(d.Calls()), d.Gap())
		}
	}
}

// TestBadQuestions: questions that make no sense are refused, and the socket goes on.
func TestBadQuestions(t *testing.T) {
	w := newRig(t, Config{})
	ctx := t.Context()
	for _, n := range []int{-1, maxRecord + 1} {
		if err := w.ask.Record(ctx, n); err == nil || !strings.Contains(err.Error(), "want a number") {
			t.Errorf("%d: %v", n, err)
		}
	}
	if _, err := w.ask.Snapshots(ctx, 1<<20); err == nil {
		t.Error("it describes a million sessions")
	}
	if err := w.ask.get(ctx, "/v1/nothing", nil); err == nil {
		t.Error("it serves what there is not")
	}
	if _, err := w.ask.About(ctx); err != nil {
		t.Error(err)
	}
}

// TestStuckLoop: a loop that nobody runs holds up a peer no longer than the timeout, and what it
// has is said to be missing.
func TestStuckLoop(t *testing.T) {
	n, err := erpc.NewNexus(erpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := n.NewRpc(listenUDP(t))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s")
	s, err := Listen(Config{Path: path, Timeout: time.Millisecond, Record: 100}, r)
	if err != nil {
		t.Fatal(err)
	}
	c := NewClient(path)
	for range 3 {
		snaps, err := c.Snapshots(t.Context(), 1)
		if err != nil || len(snaps) != 1 || !snaps[0].Late {
			t.Errorf("%+v, %v", snaps, err)
		}
		if err := c.Record(t.Context(), 10); err == nil {
			t.Error("a loop that does not run records")
		}
		dumps, err := c.Flight(t.Context())
		if err != nil || len(dumps) != 1 || !dumps[0].Late || dumps[0].Gap() == "" {
			t.Errorf("%+v, %v", dumps, err)
		}
	}
	c.Close()
	if err := errors.Join(s.Close(), r.Close(), n.Close()); err != nil {
		t.Error(err)
	}
}

// TestCrowd: peers that say nothing hold up neither calls nor, once they are gone, other peers.
func TestCrowd(t *testing.T) {
	w := newRig(t, Config{})
	var crowd []net.Conn
	for range maxPeers {
		c, err := net.Dial("unix", w.socket.Path())
		if err != nil {
			t.Fatal(err)
		}
		crowd = append(crowd, c)
	}
	if _, err := w.ask.About(t.Context()); err == nil {
		t.Error("there is room for one peer too many")
	}
	w.call(t, 10)
	for _, c := range crowd {
		_ = c.Close()
	}
	for { // the socket notices when it reads
		if _, err := w.ask.About(t.Context()); err == nil {
			break
		}
	}
}

// TestOtherUser: a peer of another user than the socket's gets nothing.
func TestOtherUser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	s, err := listen(Config{Path: path}, os.Geteuid()+1)
	if err != nil {
		t.Fatal(err)
	}
	if about, err := NewClient(path).About(t.Context()); err == nil {
		t.Errorf("it got %+v", about)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestPaths: the socket of a process that has ended makes room; one in use, and files, do not.
func TestPaths(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	old, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(Config{Path: path}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("%v", err)
	}
	old.SetUnlinkOnClose(false)
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Listen(Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(Config{Path: path}); err == nil ||
		!strings.Contains(err.Error(), "no socket") {
		t.Errorf("%v", err)
	}
}

// TestDir: the default folder is this user's alone, and Find finds the socket in it.
func TestDir(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	s, err := Listen(Config{})
	if err != nil {
		t.Fatal(err)
	}
	if found := Find(); len(found) != 1 || found[0] != s.Path() {
		t.Errorf("%q, want %q", found, s.Path())
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if found := Find(); len(found) != 0 {
		t.Errorf("%q", found)
	}
	if err := os.Chmod(Dir(), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(Config{}); err == nil {
		t.Error("it uses a folder that others may enter")
	}
}

// onlyRoot skips a test that needs root.
func onlyRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("only root can be somebody else, and CI=true")
		}
		t.Skip("only root can be somebody else")
	}
}

// nobody is another user.
const nobody = 65534

// asNobody calls f in a thread of another user, which ends with it.
func asNobody(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		const keep = ^uintptr(0)
		if _, _, no := unix.RawSyscall(unix.SYS_SETRESUID, keep, nobody, keep); no != 0 {
			done <- no
			return
		}
		done <- f()
	}()
	return <-done
}

// open returns a folder that all users may use.
func open(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "debug")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestTakenDir: another user who has taken the folder's name neither keeps this user from opening a
// socket nor is found in place of it.
func TestTakenDir(t *testing.T) {
	onlyRoot(t)
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", open(t))
	taken := filepath.Join(os.TempDir(), "erpc-debug-0")
	var theirs net.Listener
	if err := asNobody(func() (err error) {
		if err = os.Mkdir(taken, 0o755); err == nil {
			theirs, err = net.Listen("unix", filepath.Join(taken, "1.sock"))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	if found := Find(); len(found) != 0 {
		t.Errorf("%q is another user's", found)
	}
	s, err := Listen(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if found := Find(); len(found) != 1 || found[0] != s.Path() {
		t.Errorf("%q, want %q", found, s.Path())
	}
	if _, err := NewClient(s.Path()).About(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestOtherServer: nothing is read from a socket on which another user listens.
func TestOtherServer(t *testing.T) {
	onlyRoot(t)
	path := filepath.Join(open(t), "s")
	var theirs net.Listener
	if err := asNobody(func() (err error) {
		theirs, err = net.Listen("unix", path)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		ended <- http.Serve(theirs, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"Program":"theirs"}`)
		}))
	}()
	about, err := NewClient(path).About(t.Context())
	if err == nil || !strings.Contains(err.Error(), "user 65534 listens there") {
		t.Errorf("%+v, %v", about, err)
	}
	if _, err := Listen(Config{Path: path}); err == nil ||
		!strings.Contains(err.Error(), "belongs to another user") {
		t.Errorf("%v", err)
	}
	_ = theirs.Close()
	<-ended
}

// TestRealOtherUser: a process of another user gets nothing, even if the file lets it connect.
func TestRealOtherUser(t *testing.T) {
	onlyRoot(t)
	path := filepath.Join(open(t), "s")
	s, err := Listen(Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := asNobody(func() error {
		c, err := net.Dial("unix", path)
		if err != nil {
			return err
		}
		_, _ = c.Write([]byte("GET /v1/about HTTP/1.0\r\n\r\n")) // it may be cut off before
		b, err := io.ReadAll(c)
		if len(b) > 0 {
			err = errors.New(string(b))
		}
		return errors.Join(err, c.Close())
	}); err != nil && !isReset(err) {
		t.Errorf("another user got %v", err)
	}
	c := NewClient(path)
	if _, err := c.About(t.Context()); err != nil {
		t.Errorf("the own user got %v", err)
	}
	c.Close()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
