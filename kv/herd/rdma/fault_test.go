package rdma

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/verbs"
	"github.com/userspace-rpc/erpc/kv/herd"
)

// childKey names the server that a child of the tests is to call, and the design.
const childKey = "ERPC_HERD_TEST_CHILD"

// TestMain lets the test binary be a client to be killed.
func TestMain(m *testing.M) {
	if text := os.Getenv(childKey); text != "" {
		fmt.Println(child(strings.Fields(text)))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// child adds to a counter until it is killed.
func child(args []string) error {
	cfg := ClientConfig{Design: Design(args[1]), Device: "rxe0"}
	c, err := Dial(context.Background(), args[0], cfg)
	if err != nil {
		return err
	}
	var again Done
	again = func(r Result) {
		if r.Err == nil {
			r.Err = c.Increment([]byte("theirs"), 1, 0, again)
		}
		if r.Err != nil {
			fmt.Println(r.Err)
		}
	}
	begin := func(r Result) { // not before: a Put that is lost is sent again behind them
		for range 8 {
			again(r)
		}
	}
	if err := c.Put([]byte("theirs"), []byte("0"), 0, begin); err != nil {
		return err
	}
	return c.Run(func() bool { return false })
}

// add has a client add 1 to a counter so many times. It notes each number, which must be new.
func add(t *testing.T, c *Client, times int, seen map[uint64]bool) {
	t.Helper()
	var note Done
	note = func(r Result) {
		if r.Err != nil || seen[r.Number] {
			t.Fatalf("%d, seen %v, %v", r.Number, seen[r.Number], r.Err)
		}
		seen[r.Number] = true
		if times--; times >= 0 {
			r.Err = c.Increment([]byte("ours"), 1, 0, note)
		}
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	for range 16 {
		times--
		if err := c.Increment([]byte("ours"), 1, 0, note); err != nil {
			t.Fatal(err)
		}
	}
}

// zero makes the counter of add.
func zero(t *testing.T, c *Client) {
	t.Helper()
	failed := error(nil)
	err := c.Put([]byte("ours"), []byte("0"), 0, func(r Result) { failed = r.Err })
	settle(t, c)
	if err = errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
}

// TestOnce: two clients add to one counter, and each number comes once. The lab loses packets in
// one of its runs.
func TestOnce(t *testing.T) {
	each(t, Config{}, func(t *testing.T, s *Server, d Design) {
		a, b := dial(t, s, d), dial(t, s, d)
		zero(t, a)
		seen := map[uint64]bool{}
		add(t, a, 600, seen)
		add(t, b, 600, seen)
		until(t, a, func() bool {
			if _, err := b.Poll(); err != nil {
				t.Fatal(err)
			}
			return a.Pending()+b.Pending() == 0
		})
		st, err := s.Stats()
		if want := 1 + len(seen); err != nil || st.Requests != uint64(want) || st.Dropped != 0 {
			t.Errorf("%d requests, want %d: %+v, %v", st.Requests, want, st, err)
		}
		if loss := os.Getenv("RDMA_LAB_NETEM"); loss != "" && d != Write &&
			(a.Counts().Repeats == 0 || st.Repeats == 0) {
			t.Errorf("with %s nothing was repeated", loss)
		}
		t.Logf("%+v, %+v, %+v", a.Counts(), b.Counts(), st.Stats)
	})
}

// TestKilled: clients are killed while they write. The server forgets them and gives their place to
// the next, and another client notices nothing.
func TestKilled(t *testing.T) {
	cfg := Config{Clients: 2, Geometry: herd.Geometry{Partitions: 1}}
	each(t, cfg, func(t *testing.T, s *Server, d Design) {
		c := dial(t, s, d)
		zero(t, c)
		seen := map[uint64]bool{}
		for range 3 {
			before := requests(t, s)
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), childKey+"="+s.Addr().String()+" "+string(d))
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			said := make(chan string, 1)
			go func() {
				b, _ := io.ReadAll(out)
				said <- string(b)
			}()
			until(t, c, func() bool {
				select {
				case text := <-said:
					t.Fatalf("the child has ended: %s", text)
				default:
				}
				return requests(t, s) > before+20
			})
			add(t, c, 100, seen)
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if text := <-said; text != "" {
				t.Errorf("the child says %s", text)
			}
			_ = cmd.Wait() // it was killed
			until(t, c, func() bool {
				st, err := s.Stats()
				return err == nil && st.Clients == 1 && c.Pending() == 0
			})
		}
		settle(t, c)
	})
}

func requests(t *testing.T, s *Server) uint64 {
	st, err := s.Stats()
	if err != nil {
		t.Fatal(err)
	}
	return st.Requests
}

// TestProtection: a client's WRITEs outside its chunk, and with the key of another's, change
// nothing. A datagram in the name of another changes nothing either.
func TestProtection(t *testing.T) {
	s := serve(t, Config{})
	a, b := dial(t, s, Herd), dial(t, s, Herd)
	zero(t, a)
	l := s.loops[0]
	chunk := func(c *Client) string { // in the loop's thread, which alone uses peers
		var text string
		if err := l.do(func() { text = string(l.peers[c.number].chunk) }); err != nil {
			t.Fatal(err)
		}
		return text
	}
	before := chunk(b)
	copy(a.frames, "forbidden")
	wr := a.request(&herd.Post{Slot: 0, Size: 16})
	theirs, beyond, ahead := wr, wr, wr
	theirs.Remote, theirs.RKey = b.offer.Base, b.offer.RKey
	beyond.Remote = a.offer.Base + uint64(a.g.Chunk()) - 8
	ahead.Remote = a.offer.Base - 8
	for _, wr := range []verbs.SendWR{theirs, beyond, ahead} {
		if n, err := a.queue.post([]verbs.SendWR{wr}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	settle(t, a)
	seen := map[uint64]bool{}
	add(t, a, 50, seen)
	settle(t, a)
	if chunk(b) != before {
		t.Error("a client wrote into the chunk of another")
	}
	c, d := dial(t, s, Send), dial(t, s, Send)
	add(t, c, 50, seen)
	settle(t, c)
	c.number = d.number
	if err := c.Increment([]byte("ours"), 1, 0, func(Result) {}); err != nil {
		t.Fatal(err)
	}
	until(t, c, func() bool {
		st, err := s.Stats()
		return err != nil || st.Strays > 0
	})
}

// TestServerGone: operations under way end when the server does.
func TestServerGone(t *testing.T) {
	each(t, Config{}, func(t *testing.T, s *Server, d Design) {
		c := dial(t, s, d)
		zero(t, c)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		ended := error(nil)
		err := c.Get([]byte("ours"), 0, func(r Result) { ended = r.Err })
		if err == nil {
			err = c.Run(func() bool { return false })
		}
		// An answer may have come before the end, or the queue pair's error after it.
		if !errors.Is(err, ErrPeer) || ended != nil && !errors.Is(ended, ErrPeer) || c.Pending() != 0 {
			t.Errorf("%v, %v, %d under way", err, ended, c.Pending())
		}
		if err := c.Get([]byte("ours"), 0, nil); !errors.Is(err, ErrPeer) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// TestRefused: too many clients, designs that there are not, and what is no hello.
func TestRefused(t *testing.T) {
	s := serve(t, Config{Clients: 1, Geometry: herd.Geometry{Partitions: 2}})
	addr := s.Addr().String()
	c := dial(t, s, Herd)
	for _, row := range []struct {
		design Design
		want   string
	}{{Herd, "no room"}, {Write, "one partition"}, {"none", "no such design"}} {
		cfg := ClientConfig{Design: row.design, Device: "rxe0"}
		_, err := Dial(t.Context(), addr, cfg)
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("design %s: %v", row.design, err)
		}
	}
	for _, text := range []string{"GET / HTTP/1.1\n", "{}\n", strings.Repeat("x", 2*maxLine),
		`{"herd":1,"gid":"::ffff:10.9.0.1","layer":2,"mtu":4096,"design":"herd"}` + "\n"} {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, text)
		line, err := bufio.NewReader(conn).ReadString('\n')
		if len(text) < maxLine && (err != nil || !strings.Contains(line, ErrHello.Error()[6:])) {
			t.Errorf("%.30q: %q, %v", text, line, err)
		}
		conn.Close()
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; {
		if again, err := Dial(t.Context(), addr, ClientConfig{Device: "rxe0"}); err == nil {
			if err := again.Close(); err != nil {
				t.Error(err)
			}
			return
		} else if time.Now().After(end) {
			t.Fatalf("the place of a client that has gone: %v", err)
		}
	}
}

// TestHotPathAllocatesNothing: operations at both sides, which are in this process.
func TestHotPathAllocatesNothing(t *testing.T) {
	each(t, Config{}, func(t *testing.T, s *Server, d Design) {
		c := dial(t, s, d)
		zero(t, c)
		key, done := []byte("ours"), Done(func(r Result) {
			if r.Err != nil {
				t.Error(r.Err)
			}
		})
		idle := func() bool { return c.Pending() == 0 }
		round := func() {
			for i := range uint64(16) {
				if err := c.Get(key, i, done); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.Run(idle); err != nil {
				t.Fatal(err)
			}
		}
		// The loops' ticks and rests allocate nothing either.
		if n := testing.AllocsPerRun(20, round); n >= 1 {
			t.Errorf("%v allocations in 16 operations", n)
		}
	})
}
