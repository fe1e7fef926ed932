//go:build linux

package shm

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/userspace-rpc/erpc/internal/shmem"
	"github.com/userspace-rpc/erpc/transport"
)

// userRole begins the role of a child that does as it is told, as another user.
const userRole = "user:"

// Users of these tests, none of whom owns anything.
const alice, bob, carol = 65534, 65533, 65532

// somebody obeys the lines of its standard input, and answers each by one line.
func somebody(dir string) {
	p := person{dir: dir, conns: map[string]*Conn{}}
	fmt.Println("up")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		words := strings.Fields(in.Text())
		answer, err := p.do(words[0], words[1:])
		if err != nil {
			answer = "error " + strings.ReplaceAll(err.Error(), "\n", "; ")
		}
		fmt.Println(answer)
	}
}

// person is a process with endpoints and raw sockets.
type person struct {
	dir   string
	conns map[string]*Conn
	raw   []*net.UnixConn
}

func (p *person) do(what string, args []string) (string, error) {
	switch what {
	case "listen": // an endpoint with a name
		c, err := Listen(args[0], Config{Dir: p.dir, AllowOtherUsers: true, MaxPeers: 8})
		if err != nil {
			return "", err
		}
		p.conns[args[0]] = c
		return c.LocalAddr().String(), nil
	case "resolve": // by an endpoint
		a, err := p.conns[args[0]].Resolve(args[1])
		return a.String(), err
	case "send": // from an endpoint, to an address
		to, err := parse(args[1])
		if err != nil {
			return "", err
		}
		items := []transport.TxItem{{Dst: to.addr, Head: []byte(args[2])}}
		for n := 0; n == 0 && err == nil; {
			n, err = p.conns[args[0]].TxBurst(items)
		}
		return "sent", err
	case "receive":
		c := p.conns[args[0]]
		pkts := make([]transport.RxPacket, 1)
		for {
			if n, err := c.RxBurst(pkts); n > 0 || err != nil {
				return fmt.Sprintf("%s %s", pkts[0].From, pkts[0].Data), err
			}
			if err := c.Wait(hang); err != nil {
				return "", err
			}
		}
	case "silent": // connections to a socket
		n, err := strconv.Atoi(args[1])
		for ; n > 0 && err == nil; n-- {
			_, err = p.dial(args[0])
		}
		return "silent", err
	case "hello": // to a socket, from an address ("new" is one of its own) to another
		from := newAddr()
		if args[1] != "new" {
			t, err := parse(args[1])
			if err != nil {
				return "", err
			}
			from = t.addr
		}
		return "welcome", p.hello(args[0], from, args[2])
	case "mkdir":
		return "made", os.Mkdir(args[0], 0o755)
	case "pose": // listens at a path, and says how many bytes the first hello had
		return "poses", p.pose(args[0])
	}
	return "", errors.New("what?")
}

func (p *person) dial(path string) (*net.UnixConn, error) {
	s, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	p.raw = append(p.raw, s)
	return s, err
}

// hello makes a connection by hand. It stays open.
func (p *person) hello(path string, from transport.Addr, to string) error {
	s, err := p.dial(path)
	if err != nil {
		return err
	}
	t, err := parse(to)
	if err != nil {
		return err
	}
	fd, _, err := shmem.Create(shmem.PairSize(DefaultRing))
	if err != nil {
		return err
	}
	bell, _, err := shmem.CreateBell()
	if err != nil {
		return err
	}
	m := message{Kind: kindHello, From: from, To: t.addr, Ring: DefaultRing, Limit: DefaultMTU}
	if err := sendMessage(s, m, fd, bell); err != nil {
		return err
	}
	_, fds, err := receiveMessage(s, kindWelcome, 1)
	closeAll(fds)
	return err
}

// pose listens at a path and answers as if it was the endpoint that is meant.
func (p *person) pose(path string) error {
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return err
	}
	bell, _, err := shmem.CreateBell()
	if err != nil {
		return err
	}
	go func() {
		for {
			s, err := l.AcceptUnix()
			if err != nil {
				return
			}
			p.raw = append(p.raw, s) // of this goroutine from here on
			if m, fds, err := receiveMessage(s, kindHello, 2); err == nil {
				closeAll(fds)
				_ = sendMessage(s, message{Kind: kindWelcome, From: m.To, To: m.From, Limit: m.Limit}, bell)
			}
		}
	}()
	return os.Chmod(path, 0o777)
}

// told is a child of another user.
type told struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Reader
}

// tell makes the child do something and returns what it answers.
func (c *told) tell(words ...string) string {
	c.t.Helper()
	if _, err := fmt.Fprintln(c.in, strings.Join(words, " ")); err != nil {
		c.t.Fatal(err)
	}
	line, err := c.out.ReadString('\n')
	if err != nil {
		c.t.Fatalf("%v: %v", words, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// must is tell for what must not fail.
func (c *told) must(words ...string) string {
	c.t.Helper()
	answer := c.tell(words...)
	if strings.HasPrefix(answer, "error ") {
		c.t.Fatalf("%v: %s", words, answer)
	}
	return answer
}

// fails is tell for what must fail, with a text.
func (c *told) fails(want string, words ...string) {
	c.t.Helper()
	if answer := c.tell(words...); !strings.HasPrefix(answer, "error ") ||
		!strings.Contains(answer, want) {
		c.t.Errorf("%v: %s, want an error with %q", words, answer, want)
	}
}

// common returns a directory that users share, as root makes it.
func common(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("only root can be somebody else, and CI=true")
		}
		t.Skip("only root can be somebody else")
	}
	dir, err := os.MkdirTemp("/tmp", "shm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	return dir
}

// as starts a child of a user, which ends with the test.
func as(t *testing.T, uid uint32, dir string) *told {
	t.Helper()
	cmd := exec.Command("/proc/self/exe") // others may not go where the binary lies
	cmd.Env = []string{roleEnv + "=" + userRole + dir}
	cmd.Dir, cmd.Stderr = "/", os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL,
		Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	c := &told{t, in, bufio.NewReader(out)}
	if line, err := c.out.ReadString('\n'); line != "up\n" {
		t.Fatalf("the child says %q, %v", line, err)
	}
	return c
}

// socketOf returns the path of an endpoint's socket.
func socketOf(t *testing.T, dir, addr string) string {
	t.Helper()
	a, err := parse(addr)
	if err != nil {
		t.Fatal(err)
	}
	found, _ := filepath.Glob(filepath.Join(dir, "*", fileOf(a.addr)))
	if len(found) == 0 {
		found = []string{filepath.Join(dir, fileOf(a.addr))}
	}
	return found[0]
}

// TestSecondUser: two users meet in a directory of root, by name and by address.
func TestSecondUser(t *testing.T) {
	dir := common(t)
	a, b := as(t, alice, dir), as(t, bob, dir)
	server := a.must("listen", "server")
	client := b.must("listen", "server") // each user has names of its own
	if got := b.must("resolve", "server", "server@65534"); got != server {
		t.Errorf("the server is %s, %s was found", server, got)
	}
	if got := b.must("resolve", "server", "server"); got != client {
		t.Errorf("the own server is %s, %s was found", client, got)
	}
	b.must("send", "server", server, "ping")
	if got := a.must("receive", "server"); got != client+" ping" {
		t.Errorf("received %q", got)
	}
	a.must("send", "server", client, "pong")
	if got := b.must("receive", "server"); got != server+" pong" {
		t.Errorf("received %q", got)
	}
	b.fails("no such endpoint", "resolve", "server", "other@65534")
	b.fails("no such endpoint", "resolve", "server", "server@65532")
}

// TestInNameOfOther: nobody connects in the name of an endpoint of another user, who connects as if
// nothing had been.
func TestInNameOfOther(t *testing.T) {
	dir := common(t)
	a, b := as(t, alice, dir), as(t, bob, dir)
	server, client := a.must("listen", "server"), a.must("listen", "client")
	b.fails("another user", "hello", socketOf(t, dir, server), client, server)
	a.must("resolve", "client", server)
	a.must("send", "client", server, "ping")
	if got := a.must("receive", "server"); got != client+" ping" {
		t.Errorf("received %q", got)
	}
}

// TestInPlaceOfOther: nobody is taken for an endpoint of another user, also after its end.
func TestInPlaceOfOther(t *testing.T) {
	dir := common(t)
	b, c := as(t, bob, dir), as(t, carol, dir)
	b.must("listen", "client")
	gone := transport.Addr(newAddr())
	gone.Scope = alice + 1
	folder := filepath.Join(dir, folderOf(alice))
	c.must("mkdir", folder)
	c.must("pose", filepath.Join(folder, fileOf(gone)))
	b.fails("user 65532 has its socket", "resolve", "client", gone.String())
	// Nor does a name count in a folder of somebody else.
	if err := os.Symlink(fileOf(gone), filepath.Join(folder, namePrefix+"server")); err != nil {
		t.Fatal(err)
	}
	b.fails("belongs to user 65532", "resolve", "client", "server@65534")
	as(t, alice, dir).fails("belongs to user 65532", "listen", "server")
}

// TestSilentUsers: connections that say nothing keep nobody out but their own user, if anybody.
func TestSilentUsers(t *testing.T) {
	dir := common(t)
	a, b, c := as(t, alice, dir), as(t, bob, dir), as(t, carol, dir)
	server := a.must("listen", "server")
	a.must("listen", "client")
	path := socketOf(t, dir, server)
	for _, u := range []*told{b, as(t, 65531, dir), as(t, 65530, dir), as(t, 65529, dir),
		as(t, 65528, dir)} {
		u.must("silent", path, "300")
	}
	a.must("resolve", "client", server)
	c.must("hello", path, "new", server)
	b.must("hello", path, "new", server)
	own := listen(t, "", Config{Dir: dir, AllowOtherUsers: true})
	path = socketOf(t, dir, own.LocalAddr().String())
	b.must("silent", path, "300")
	b.must("hello", path, "new", own.LocalAddr().String()) // it comes last
	own.hub.mu.Lock()
	defer own.hub.mu.Unlock()
	if n := len(own.hub.newcomers); n > maxNewcomers/4 {
		t.Errorf("a user has %d connections that say nothing", n)
	}
}

// TestPlacesOfUser: a user has a quarter of an endpoint's connections at most, all others together
// have three quarters.
func TestPlacesOfUser(t *testing.T) {
	dir := common(t)
	a, b := as(t, alice, dir), as(t, bob, dir)
	server := a.must("listen", "server") // MaxPeers is 8
	path := socketOf(t, dir, server)
	for _, u := range []*told{b, as(t, carol, dir), as(t, 65531, dir)} {
		for range 2 {
			u.must("hello", path, "new", server)
		}
		u.fails("it has too many", "hello", path, "new", server)
	}
	as(t, 65530, dir).fails("it has too many", "hello", path, "new", server)
	for _, name := range []string{"client1", "client2"} {
		a.must("listen", name)
		a.must("resolve", name, server)
	}
}

// TestFolders: users' folders are made so that others can come in, whatever the umask, and one that
// others can write is not used.
func TestFolders(t *testing.T) {
	dir := t.TempDir()
	old := unix.Umask(0o077)
	c := listen(t, "a", Config{Dir: dir, AllowOtherUsers: true})
	unix.Umask(old)
	folder := filepath.Join(dir, folderOf(uint32(os.Geteuid())))
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o711 {
		t.Errorf("%v, %v", info, err)
	}
	self := fmt.Sprintf("a@%d", os.Geteuid())
	if a, err := c.Resolve(self); err != nil || a != c.LocalAddr() {
		t.Errorf("Resolve(%q) = %v, %v", self, a, err)
	}
	if err := os.Chmod(folder, 0o733); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen("", Config{Dir: dir, AllowOtherUsers: true}); !errors.Is(err, ErrDirectory) {
		t.Errorf("a folder that others can write: %v", err)
	}
	for text, want := range map[string]error{self: nil, "shm:" + self: nil,
		fmt.Sprintf("a@%d", os.Geteuid()+1): ErrNoEndpoint, "a@": transport.ErrBadAddress,
		"a@x": transport.ErrBadAddress, "a@+1": transport.ErrBadAddress,
		"a@4294967295":                transport.ErrBadAddress,
		c.LocalAddr().String() + "@1": transport.ErrBadAddress} {
		if _, err := c.Resolve(text); !errors.Is(err, want) {
			t.Errorf("Resolve(%q): %v, want %v", text, err, want)
		}
	}
	if _, err := Listen(self, meeting(t, Config{})); !errors.Is(err, transport.ErrBadAddress) {
		t.Errorf("an endpoint chooses its user: %v", err)
	}
	alone := listen(t, "a", meeting(t, Config{}))
	if _, err := alone.Resolve("a@1"); !errors.Is(err, ErrNoEndpoint) {
		t.Errorf("another user's name: %v", err)
	}
}

// TestDefaultDirectory: another user who has taken the name of this user's directory keeps nobody
// from meeting, and nor does a runtime directory of another user that a process inherited.
func TestDefaultDirectory(t *testing.T) {
	other := common(t) // for root
	if err := os.Chown(other, bob, bob); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", other)
	t.Setenv("TMPDIR", t.TempDir())
	taken := filepath.Join(os.TempDir(), fmt.Sprintf("erpc-%d", os.Geteuid()))
	if err := errors.Join(os.Mkdir(taken, 0o755), os.Chown(taken, bob, bob)); err != nil {
		t.Fatal(err)
	}
	a, b := listen(t, "a", Config{}), listen(t, "b", Config{})
	if _, err := b.Resolve("a"); err != nil {
		t.Fatal(err)
	}
	exchange(t, a, b)
	for _, dir := range []string{other, taken} {
		if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
			t.Errorf("%v, %v in a directory of another user", files, err)
		}
	}
}

// TestFailuresOfStrangers: attempts of others that fail leave nothing behind for an endpoint that
// does not look, and it is not woken.
func TestFailuresOfStrangers(t *testing.T) {
	c := listen(t, "", meeting(t, Config{}))
	seals := unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	pair, bell := file(t, shmem.PairSize(DefaultRing), seals), file(t, shmem.BellSize, 0)
	for range 20 {
		s := newStranger(t, c)
		if err := sendMessage(s.sock, message{Kind: kindHello, From: s.addr, To: c.local,
			Ring: DefaultRing, Limit: DefaultMTU}, pair, bell); err != nil {
			t.Fatal(err)
		}
		if err := s.ends(); err == nil || !strings.Contains(err.Error(), "bad request") {
			t.Errorf("%v", err)
		}
		s.sock.Close()
	}
	within(t, "forgetting them", func() bool { links, _ := count(c); return links == 0 })
	if events := c.hub.take(); len(events) > 0 {
		t.Errorf("%d events wait", len(events))
	}
}

// TestTakesOver: a peer that connects while we connect to it makes the memory, and cannot exceed
// the limit by that.
func TestTakesOver(t *testing.T) {
	cfg := meeting(t, Config{MaxMemory: peerMemory(DefaultRing)})
	c := listen(t, "", cfg)
	first := newAddr() // its question goes before ours
	for !less(first, c.local) {
		first = newAddr()
	}
	l, err := net.ListenUnix("unixpacket", c.hub.dir.socket(fileOf(first)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialled := make(chan error, 1)
	go func() { dialled <- c.hub.connect(first) }()
	ours, err := l.AcceptUnix() // it says nothing
	if err != nil {
		t.Fatal(err)
	}
	const ring = 2 * DefaultRing
	seals := unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	s := newStranger(t, c)
	if err := sendMessage(s.sock, message{Kind: kindHello, From: first, To: c.local, Ring: ring,
		Limit: DefaultMTU}, file(t, shmem.PairSize(ring), seals),
		file(t, shmem.BellSize, seals)); err != nil {
		t.Fatal(err)
	}
	if err := s.ends(); err == nil || !strings.Contains(err.Error(), "too many") {
		t.Errorf("%v", err)
	}
	if links, memory := count(c); links != 1 || memory != peerMemory(DefaultRing) {
		t.Errorf("%d links, %d bytes", links, memory)
	}
	ours.Close()
	if err := <-dialled; !errors.Is(err, ErrHandshake) {
		t.Errorf("%v", err)
	}
}
