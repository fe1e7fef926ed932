package memcached

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/kv/mica"
)

// crowd is how many connections of a test want more memory than there is for all.
const crowd = 40

// bounded serves a server with the least memory for connections, and two values of 1 MiB.
func bounded(t *testing.T, timeout time.Duration) (s *Server, dial func() net.Conn) {
	s, _ = newServer(t, 2, mica.Config{Memory: 8 << 20})
	s.cfg.ReadTimeout, s.cfg.WriteTimeout = timeout, forever
	s.values.patience, s.answers.patience, s.lines.patience = forever, forever, forever
	s.values.limit, s.answers.limit, s.lines.limit = 1200<<10, 1200<<10, 100<<10
	play(s, "set k 0 0 1048576\r\n"+strings.Repeat("x", 1<<20)+"\r\nset small 0 0 1\r\nx\r\n", 1<<20)
	return s, listen(t, s)
}

// until waits for what the server does by itself.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("not so after 20 s: ", what)
		}
	}
}

// served checks that a client with small commands needs to wait for nobody.
func served(t *testing.T, dial func() net.Conn) {
	t.Helper()
	say(t, dial(), "get small\r\nset small 0 0 1\r\nx\r\n",
		"VALUE small 0 1\r\nx\r\nEND\r\nSTORED\r\n")
}

// TestManyUnread: the answers that clients ask for and do not read take no more memory than the
// server has for that, clients with small commands are served meanwhile, and all others when the
// first are cut off.
func TestManyUnread(t *testing.T) {
	s, dial := bounded(t, forever)
	var list []net.Conn
	for range crowd {
		c := dial()
		fmt.Fprint(c, "get"+strings.Repeat(" k", 64)+"\r\n")
		list = append(list, c)
	}
	until(t, "they wait for memory", func() bool { return s.answers.waiters() > crowd/2 })
	if n := s.answers.used(); n > s.answers.limit {
		t.Errorf("%d bytes of answers, limit %d", n, s.answers.limit)
	}
	served(t, dial)
	for _, c := range list[1:] {
		_ = c.Close()
	}
	if n, err := io.CopyN(io.Discard, list[0], 64<<20); err != nil {
		t.Errorf("one who reads has %d bytes: %v", n, err)
	}
}

// TestHalfSent: values that clients begin to send take no more memory than there is for that, and
// those that do not come have an end.
func TestHalfSent(t *testing.T) {
	s, dial := bounded(t, forever)
	var list []net.Conn
	for range crowd {
		c := dial()
		fmt.Fprintf(c, "set a 0 0 1048576\r\n%s", strings.Repeat("x", 1<<15))
		list = append(list, c)
	}
	until(t, "they wait for memory", func() bool { return s.values.waiters() == crowd-1 })
	if n := s.values.used(); n > s.values.limit {
		t.Errorf("%d bytes of values, limit %d", n, s.values.limit)
	}
	served(t, dial)
	for _, c := range list[1:] {
		_ = c.Close() // the server does not see it yet
	}
	say(t, list[0], strings.Repeat("x", 1<<20-1<<15)+"\r\n", "STORED\r\n")
	until(t, "they have ended", func() bool { return s.open() <= 2 && s.values.used() == 0 })
}

// TestSlowSenders: a command that has begun has to come, of whatever kind, and one who waits for
// memory in vain is told so and goes on.
func TestSlowSenders(t *testing.T) {
	for _, begin := range []string{"g", "get a", "set a 0 0 9\r\nx", "set a 0 0 1048576\r\nx",
		"set a x 0 1048576\r\nx", "get" + strings.Repeat(" a", 1<<15)} {
		_, dial := bounded(t, 20*time.Millisecond)
		silent, c := dial(), dial()
		fmt.Fprint(c, begin)
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Errorf("%.20q: %v", begin, err)
		}
		say(t, silent, "mn\r\n", "MN\r\n") // who has begun nothing may take its time
	}
	s, dial := bounded(t, 20*time.Millisecond)
	held := s.values.take(1<<20, forever, nil)
	say(t, dial(), "set a 0 0 1048576\r\n"+strings.Repeat("flush_all\r\n", 95326)[:1<<20]+"\r\nmn\r\n",
		noMemory+"\r\nMN\r\n")
	s.values.give(held)
}

// TestIdleHolders: who needs memory waits no longer than a moment for clients that have all of it
// and do nothing, and the fewest of those are ended.
func TestIdleHolders(t *testing.T) {
	line := "get" + strings.Repeat(" none", 2000)
	value := "set a 0 0 1048576\r\n" + strings.Repeat("x", 1<<20)
	for _, row := range []struct {
		idle, said, want string
		holders          int
		of               func(s *Server) *account
	}{
		{"get" + strings.Repeat(" k", 64) + "\r\n", "get k\r\n", "VALUE k 0 1048576\r\n", 1,
			func(s *Server) *account { return &s.answers }},
		{value[:1<<15], value + "\r\n", "STORED\r\n", 1,
			func(s *Server) *account { return &s.values }},
		{line, line + "\r\n", "END\r\n", 3, func(s *Server) *account { return &s.lines }},
	} {
		s, dial := bounded(t, forever)
		for range row.holders {
			fmt.Fprint(dial(), row.idle)
		}
		a := row.of(s)
		until(t, "they hold all", func() bool { return len(a.holding()) == row.holders })
		a.mu.Lock()
		a.patience = time.Millisecond
		a.mu.Unlock()
		say(t, dial(), row.said, row.want)
		until(t, "one has ended", func() bool { return s.open() == row.holders })
	}
}

// holding returns the connections that have memory.
func (a *account) holding() (list []*holder) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range a.holders {
		list = append(list, h)
	}
	return list
}

// TestNoRoom: a client whose answer finds no memory leaves nothing to those who come next, but its
// count.
func TestNoRoom(t *testing.T) {
	s, _ := bounded(t, forever)
	s.answers.limit = sizeOf(0) // less than its answer needs
	for range 20 {
		if got := play(s, "mn\r\nget small\r\nget k\r\n", 1<<20); strings.Contains(got, "VALUE k") {
			t.Fatalf("it had room: %d bytes", len(got))
		}
		const small = "VALUE small 0 1\r\nx\r\nEND\r\n"
		if got := play(s, "get small\r\nmn\r\n", 1); got != small+"MN\r\n" {
			t.Fatalf("the next client has %q", got)
		}
	}
	if n := s.totals[getHits].Load(); n != 40 {
		t.Errorf("%d hits, want 40", n)
	}
}

// TestOtherProtocols: a client of another protocol learns at once that it is wrong here.
func TestOtherProtocols(t *testing.T) {
	_, dial := bounded(t, forever)
	for _, said := range []string{"\x80", "\x16", "GET / HTTP/1.1\r\n", "POST /x HTTP/1.1\r\n"} {
		c := dial()
		fmt.Fprint(c, said)
		if got, err := io.ReadAll(c); err != nil || len(got) > 0 {
			t.Errorf("%q: %q, %v", said, got, err)
		}
	}
}

// TestLongMultiGets: a get has as many keys as its client likes, and the answers are in order.
func TestLongMultiGets(t *testing.T) {
	s, dial := bounded(t, forever)
	play(s, "set b 5 0 2\r\nxy\r\n", 1<<20)
	const a, b = "VALUE small 0 1\r\nx\r\n", "VALUE b 5 2\r\nxy\r\n"
	long, end := strings.Repeat("k", maxKey+1), "END\r\nMN\r\n"
	for _, row := range []struct{ said, want string }{
		{"get" + strings.Repeat(" small none b", 30_000), strings.Repeat(a+b, 30_000) + end},
		{"gat 0" + strings.Repeat(" small  none   b", 10_000) + "  ", strings.Repeat(a+b, 10_000) + end},
		{"get " + strings.Repeat(" ", 100_000) + "b", "CLIENT_ERROR line too long\r\n"},
		{"gat x" + strings.Repeat(" b", 100_000), badTime + "\r\nMN\r\n"},
		{"get " + long + strings.Repeat(" b", 100_000), badFormat + "\r\nMN\r\n"},
		{"get " + strings.Repeat("k", 300_000) + " b", "CLIENT_ERROR line too long\r\n"},
		{"get" + strings.Repeat(" b", 1<<16) + " " + long + " b", strings.Repeat(b, 1<<16) + badFormat +
			"\r\nMN\r\n"},
	} {
		for _, piece := range []int{1000, 1 << 20} {
			if got := play(s, row.said+"\r\nmn\r\n", piece); got != row.want {
				t.Errorf("%.20q in pieces of %d: %d bytes, want %d: %.80q", row.said, piece, len(got),
					len(row.want), got[max(0, len(got)-80):])
			}
		}
	}
	c := dial()
	go fmt.Fprint(c, "get"+strings.Repeat(" k", 300)+"\r\nmn\r\n")
	r := bufio.NewReader(c)
	all := int64(300 * (1<<20 + len("VALUE k 0 1048576\r\n\r\n")))
	if n, err := io.CopyN(io.Discard, r, all); err != nil {
		t.Errorf("%d bytes: %v", n, err)
	}
	if rest, err := r.Peek(len(end)); err != nil || string(rest) != end {
		t.Errorf("%q, %v", rest, err)
	}
}
