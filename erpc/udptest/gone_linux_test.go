package udptest

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestServerGone kills the server in the middle of traffic. Its clients would wait for an hour, but
// its machine says that nobody listens at the port any more, so those under way fail at once.
func TestServerGone(t *testing.T) {
	if os.Getenv(transportEnv) != "" {
		t.Skip("needs the errors of UDP sockets")
	}
	const workers = 16
	for _, bind := range []string{"127.0.0.1:0", "[::1]:0"} {
		s := server(t, role{Bind: bind})
		c := client(t, role{Bind: bind, Failure: time.Hour, Slots: workers}, s)
		c.begin(job{Op: "fail", Workers: workers, Size: 10_000, Type: typeEcho})
		c.flowing()
		s.kill()
		at := time.Now()
		r := c.done()
		lostSome(t, r.Errors, workers)
		t.Logf("%s: the last call failed %v after the end of the server", bind, time.Since(at))
		s = server(t, role{Bind: s.Addr})
		c.begin(job{Op: "heal", Workers: 1, Size: 100, Type: typeEcho})
		c.done()
		c.quit()
		s.quit()
	}
}

// TestGoneUnderDecorators: what is put around a client's transport does not keep from it that its
// server has gone, or the reason: over UDP that nobody listens at the port, over shared memory that
// the process has ended.
func TestGoneUnderDecorators(t *testing.T) {
	if os.Getenv(transportEnv) != "" {
		t.Skip("is about UDP and shared memory")
	}
	arounds := [][]string{nil, decorators}
	for _, name := range decorators {
		arounds = append(arounds, []string{name})
	}
	for _, way := range []struct{ name, says string }{
		{"UDP", "nobody listens at its port"}, {"shared memory", "its process or endpoint has ended"},
	} {
		for _, around := range arounds {
			t.Run(fmt.Sprint(way.name, around), func(t *testing.T) {
				dir := ""
				if way.name != "UDP" {
					dir = filepath.Join(t.TempDir(), "erpc")
				}
				goneUnder(t, dir, around, way.says)
			})
		}
	}
}

// goneUnder kills a server in the middle of traffic, and looks at what its client's errors say.
func goneUnder(t *testing.T, dir string, around []string, says string) {
	const workers = 4
	s := server(t, role{Dir: dir})
	c := client(t, role{Dir: dir, Around: around, Failure: time.Hour, Slots: workers}, s)
	c.begin(job{Op: "fail", Workers: workers, Size: 10_000, Type: typeEcho})
	c.flowing()
	s.kill()
	r := c.done()
	lostSome(t, r.Errors, workers)
	if !strings.Contains(r.Lost, says) {
		t.Errorf("the error says %q, not %q", r.Lost, says)
	}
	c.quit()
}

// forgeFor is how long errors are forged. The wait is the experiment.
const forgeFor = 2 * time.Second

// TestForgedErrors stops the server, and somebody sends the client errors that say that nobody
// listens at the server's port, and quote what the server might have been sent. No call fails.
func TestForgedErrors(t *testing.T) {
	if os.Getenv(transportEnv) != "" {
		t.Skip("needs the errors of UDP sockets")
	}
	if os.Getuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("forging errors of UDP sockets needs root")
		}
		t.Skip("forging errors of UDP sockets needs root")
	}
	s := server(t, role{})
	probe := server(t, role{}) // for a port that is free then
	bind := probe.Addr
	probe.quit()
	c := client(t, role{Bind: bind, Failure: time.Hour}, s)
	c.begin(job{Op: "flow", Workers: 8, Size: 3000, Type: typeOnce})
	c.flowing()
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	forge(t, netip.MustParseAddrPort(bind), netip.MustParseAddrPort(s.Addr))
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	c.tell("halt")
	if r := c.done(); len(r.Errors) != 0 || r.OK < 8 {
		t.Errorf("%d calls succeeded, errors %v", r.OK, r.Errors)
	}
	c.quit()
	s.quit()
}

// forge sends ICMP errors about packets from one port of this machine to another, each millisecond
// for forgeFor.
func forge(t *testing.T, from, to netip.AddrPort) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	const icmp, ip, udp, data = 8, 20, 8, 64
	b := make([]byte, icmp+ip+udp+data)
	b[0], b[1] = 3, 3 // destination unreachable, port unreachable
	h := b[icmp:]
	h[0], h[8], h[9] = 0x45, 64, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(h[2:], ip+udp+data)
	copy(h[12:], from.Addr().AsSlice())
	copy(h[16:], to.Addr().AsSlice())
	binary.BigEndian.PutUint16(h[ip:], from.Port())
	binary.BigEndian.PutUint16(h[ip+2:], to.Port())
	binary.BigEndian.PutUint16(h[ip+4:], udp+data)
	sum := uint32(0)
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xFFFF {
		sum = sum>>16 + sum&0xFFFF
	}
	binary.BigEndian.PutUint16(b[2:], ^uint16(sum))
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(forgeFor); time.Now().Before(end); <-tick.C {
		if err := unix.Sendto(fd, b, 0, &unix.SockaddrInet4{Addr: from.Addr().As4()}); err != nil {
			t.Fatal(err)
		}
	}
}
