//go:build linux

package shm

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/userspace-rpc/erpc/internal/shmem"
	"github.com/userspace-rpc/erpc/transport"
)

// stranger is a process that speaks, or does not speak, the handshake with an endpoint.
type stranger struct {
	t    *testing.T
	sock *net.UnixConn
	addr transport.Addr
}

func newStranger(t *testing.T, c *Conn) *stranger {
	t.Helper()
	s, err := net.DialUnix("unixpacket", nil, c.hub.dir.socket(fileOf(c.local)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return &stranger{t, s, newAddr()}
}

// ends waits until the endpoint has ended the conversation, and returns its last refusal.
func (s *stranger) ends() error {
	s.t.Helper()
	_, fds, err := receiveMessage(s.sock, kindWelcome, 1)
	closeAll(fds)
	if err == nil {
		s.t.Error("welcome")
	}
	return err
}

// file returns a memory file with seals.
func file(t *testing.T, size, seals int) int {
	t.Helper()
	fd, err := unix.MemfdCreate("stranger", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err == nil {
		err = unix.Ftruncate(fd, int64(size))
	}
	if err == nil && seals != 0 {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// count returns what the limits of an endpoint count.
func count(c *Conn) (links int, memory int64) {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	return len(c.hub.links), c.hub.used.memory
}

// TestBadHandshakes: whatever a stranger sends, the endpoint goes on and holds nothing.
func TestBadHandshakes(t *testing.T) {
	const ring, limit = 64 << 10, 4000
	seals := unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	cfg := meeting(t, Config{MTU: 64 << 10})
	c, other := listen(t, "a", cfg), listen(t, "b", cfg)
	exchange(t, c, other)
	good := file(t, shmem.PairSize(ring), seals)
	bell := file(t, shmem.BellSize, seals)
	hello := message{Kind: kindHello, To: c.local, Ring: ring, Limit: limit}
	with := func(f func(m *message)) message { m := hello; f(&m); return m }
	_, fdsBefore := held(t)
	for _, x := range []struct {
		name string
		m    message
		fds  []int
	}{
		{"no descriptors", hello, nil},
		{"one descriptor", hello, []int{good}},
		{"four descriptors", hello, []int{good, bell, bell, bell}},
		{"six descriptors", hello, []int{good, bell, bell, bell, bell, bell}},
		{"descriptors the wrong way round", hello, []int{bell, good}},
		{"not memory", hello, []int{int(os.Stdout.Fd()), bell}},
		{"bell is not memory", hello, []int{good, int(os.Stdout.Fd())}},
		{"unsealed", hello, []int{file(t, shmem.PairSize(ring), 0), bell}},
		{"unsealed bell", hello, []int{good, file(t, shmem.BellSize, 0)}},
		{"too small", hello, []int{file(t, shmem.PairSize(ring)-4096, seals), bell}},
		{"larger ring", with(func(m *message) { m.Ring *= 2 }), []int{good, bell}},
		{"odd ring", with(func(m *message) { m.Ring++ }), []int{good, bell}},
		{"no ring", with(func(m *message) { m.Ring = 0 }), []int{good, bell}},
		{"huge ring", with(func(m *message) { m.Ring = 1 << 63 }), []int{good, bell}},
		{"ring beyond the memory limit", with(func(m *message) { m.Ring = 4 << 30 }), []int{good, bell}},
		{"no limit", with(func(m *message) { m.Limit = 0 }), []int{good, bell}},
		{"limit too large for the ring", with(func(m *message) { m.Limit = ring }), []int{good, bell}},
		{"huge limit", with(func(m *message) { m.Limit = 1<<32 - 1 }), []int{good, bell}},
		{"for another", with(func(m *message) { m.To = other.local }), []int{good, bell}},
		{"from nobody", with(func(m *message) { m.From = transport.Addr{Port: 1} }), []int{good, bell}},
		{"from ourselves", with(func(m *message) { m.From = c.local }), []int{good, bell}},
		{"from one who is here", with(func(m *message) { m.From = other.local }), []int{good, bell}},
		{"welcome", with(func(m *message) { m.Kind = kindWelcome }), []int{good, bell}},
		{"refusal", with(func(m *message) { m.Kind = kindRefuse }), []int{good, bell}},
	} {
		s := newStranger(t, c)
		if x.m.From == (transport.Addr{}) {
			x.m.From = s.addr
		}
		if err := sendMessage(s.sock, x.m, x.fds...); err != nil {
			t.Fatalf("%s: %v", x.name, err)
		}
		if err := s.ends(); err == nil {
			t.Errorf("%s: accepted", x.name)
		}
	}
	for _, raw := range [][]byte{{1}, make([]byte, messageSize), make([]byte, messageSize+1),
		make([]byte, 60000)} {
		s := newStranger(t, c)
		if _, err := s.sock.Write(raw); err != nil {
			t.Fatal(err)
		}
		_ = s.ends()
	}
	exchange(t, c, other)
	if c.Hints(make([]transport.Hint, 1)) != 0 {
		t.Error("a stranger made it believe that a peer has gone")
	}
	within(t, "one peer and its memory, as before", func() bool { // a stranger hears of its end first
		links, memory := count(c)
		return c.Peers() == 1 && links == 1 && memory == peerMemory(DefaultRing)
	})
	within(t, "closing", func() bool { // the strangers' sockets are still here
		maps, fds := held(t)
		return maps == 2+4 && fds <= fdsBefore+40
	})
}

// TestNoFilesLeft: an endpoint that has no file descriptors for what a hello brings says so. The
// kernel tells it in the same way of descriptors for which there is no room.
func TestNoFilesLeft(t *testing.T) {
	c := listen(t, "a", meeting(t, Config{}))
	f := file(t, shmem.BellSize, 0)
	s := newStranger(t, c)
	hello := message{Kind: kindHello, From: s.addr, To: c.local, Ring: 64 << 10, Limit: 4000}
	if err := sendMessage(s.sock, hello, f, f, f, f, f, f); err != nil {
		t.Fatal(err)
	}
	err := s.ends()
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "no file descriptors left") {
		t.Errorf("the stranger reads %v", err)
	}
}

// TestBadAnswers: an endpoint that is asked answers with nonsense.
func TestBadAnswers(t *testing.T) {
	c := listen(t, "", meeting(t, Config{}))
	bell := file(t, shmem.BellSize, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	for _, x := range []struct {
		name   string
		answer func(m message) (message, []int)
		want   error
	}{
		{"nothing", nil, ErrHandshake},
		{"refusal", func(m message) (message, []int) { return message{Kind: kindRefuse, Why: 99}, nil },
			ErrRefused},
		{"no bell", func(m message) (message, []int) {
			return message{Kind: kindWelcome, From: m.To, To: m.From, Limit: m.Limit}, nil
		}, ErrHandshake},
		{"larger limit", func(m message) (message, []int) {
			return message{Kind: kindWelcome, From: m.To, To: m.From, Limit: m.Limit + 1}, []int{bell}
		}, ErrHandshake},
		{"no limit", func(m message) (message, []int) {
			return message{Kind: kindWelcome, From: m.To, To: m.From}, []int{bell}
		}, nil},
		{"another address", func(m message) (message, []int) {
			return message{Kind: kindWelcome, From: m.From, To: m.From, Limit: m.Limit}, []int{bell}
		}, ErrHandshake},
		{"bell is not memory", func(m message) (message, []int) {
			return message{Kind: kindWelcome, From: m.To, To: m.From, Limit: m.Limit},
				[]int{int(os.Stdout.Fd())}
		}, shmem.ErrUnsafeFile},
	} {
		addr := newAddr()
		l, err := net.ListenUnix("unixpacket", c.hub.dir.socket(fileOf(addr)))
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := c.Resolve(addr.String())
			ended <- err
		}()
		s, err := l.AcceptUnix()
		if err != nil {
			t.Fatal(err)
		}
		m, fds, err := receiveMessage(s, kindHello, 2)
		if err != nil {
			t.Fatal(err)
		}
		closeAll(fds)
		if x.answer != nil {
			m, fds = x.answer(m)
			if err := sendMessage(s, m, fds...); err != nil {
				t.Fatal(err)
			}
		} else {
			s.Close()
		}
		if err := <-ended; err == nil || x.want != nil && !errors.Is(err, x.want) {
			t.Errorf("%s: %v, want %v", x.name, err, x.want)
		}
		s.Close()
		l.Close()
	}
	if links, memory := count(c); links != 0 || memory != 0 {
		t.Errorf("%d links, %d bytes after bad answers", links, memory)
	}
}

// FuzzMessage: no bytes of a stranger do more than end the conversation.
func FuzzMessage(f *testing.F) {
	good, _ := binary.Append(nil, binary.LittleEndian,
		&message{Magic: magic, Kind: kindHello, Ring: 1 << 20, Limit: 5000})
	f.Add(good)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, in []byte) {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Skip(err)
		}
		file := os.NewFile(uintptr(fds[0]), "socket")
		conn, err := net.FileConn(file)
		file.Close()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = unix.Sendto(fds[1], in, unix.MSG_NOSIGNAL, nil)
		unix.Close(fds[1])
		m, got, err := receiveMessage(conn.(*net.UnixConn), kindHello, 0)
		if err == nil && (len(in) != messageSize || m.Magic != magic || m.Kind != kindHello ||
			len(got) != 0) {
			t.Errorf("accepted %x", in)
		}
	})
}

// TestOtherUser: only processes of the same user may connect, unless the endpoint says otherwise.
func TestOtherUser(t *testing.T) {
	mine := uint32(os.Geteuid())
	for _, x := range []struct {
		h    *hub
		want bool
	}{
		{&hub{uid: mine}, true},
		{&hub{uid: mine + 1}, mine == 0}, // root may always
		{&hub{uid: mine + 1, cfg: Config{AllowOtherUsers: true}}, true},
	} {
		if got := x.h.isOf(newAddr(), mine); got != x.want {
			t.Errorf("an endpoint of user %d (others: %v) talks to user %d: %v", x.h.uid,
				x.h.cfg.AllowOtherUsers, mine, got)
		}
	}
}
