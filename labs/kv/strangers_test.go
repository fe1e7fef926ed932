package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/labs/benchrows"
)

// childVariable makes the test binary be a server.
const childVariable = "ERPC_BENCH_KV_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		if err := serveText(1, 1, "shared"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestStrangers: a server with 64 MiB of items takes at most 64 MiB more, and 20 kB for each
// connection, whatever a thousand of them do; and who asks for small things is served meanwhile.
func TestStrangers(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	const conns = 1000
	for name, said := range map[string]string{
		"silent":              "",
		"unread multi-gets":   "get" + strings.Repeat(" k", 64) + "\r\n",
		"unread middle gets":  strings.Repeat("get m m m m m m m m\r\n", 100),
		"unread small gets":   strings.Repeat("get s\r\n", 40_000),
		"unread stats":        strings.Repeat("stats\r\n", 200),
		"half-sent values":    "set a 0 0 1048576\r\n" + strings.Repeat("x", 1<<19),
		"half-sent small":     "set a 0 0 9000\r\n" + strings.Repeat("x", 8000),
		"half-sent lines":     "get" + strings.Repeat(" k", 9000),
		"refused values":      "set a x 0 1048576\r\n" + strings.Repeat("x", 1<<19),
		"pipelined multi-get": strings.Repeat("get"+strings.Repeat(" k m s", 1000)+"\r\n", 10),
	} {
		t.Run(name, func(t *testing.T) {
			child, addr := startStranged(t)
			var list []net.Conn
			for range conns {
				c := dial(t, addr)
				list = append(list, c)
				_ = c.SetWriteDeadline(time.Now().Add(30 * time.Millisecond)) // the server stops reading
				if _, err := c.Write([]byte(said)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatal(err)
				}
			}
			c := dial(t, addr)
			for range 1000 {
				if got := askLine(t, c, "set s 0 0 1\r\nx\r\n"); got != "STORED" {
					t.Errorf("an honest client is told %q", got)
				}
			}
			used := statusKiB(t, child.Pid(), "VmHWM")
			most := (64+64)<<10 + conns*20_000>>10
			t.Logf("%d KiB", used)
			if used > most {
				t.Errorf("%d KiB, want %d at most", used, most)
			}
			for _, c := range list {
				_ = c.Close()
			}
		})
	}
}

// startStranged starts a server whose 64 MiB are full of large values.
func startStranged(t *testing.T) (*benchrows.Child, string) {
	t.Helper()
	t.Setenv(childVariable, "1")
	child, err := benchrows.StartChild(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := child.Stop(); err != nil {
			t.Error(err)
		}
	})
	addr, err := child.Address()
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, addr)
	large := strings.Repeat("v", 1<<20)
	for i := range 100 {
		fmt.Fprintf(c, "set fill%d 0 0 %d noreply\r\n%s\r\n", i, len(large), large)
	}
	fmt.Fprintf(c, "set k 0 0 %d noreply\r\n%s\r\nset m 0 0 9000 noreply\r\n%s\r\n", len(large), large,
		large[:9000])
	if got := askLine(t, c, "set s 0 0 1\r\nx\r\n"); got != "STORED" {
		t.Fatal(got)
	}
	return child, addr
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func askLine(t *testing.T, c net.Conn, said string) string {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprint(c, said)
	got, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(got, "\r\n")
}

// statusKiB returns a line of a process' status in KiB.
func statusKiB(t *testing.T, pid int, name string) (n int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skip("there is no /proc: ", err)
	}
	_, rest, _ := strings.Cut(string(text), name+":")
	if _, err := fmt.Sscan(rest, &n); err != nil {
		t.Fatal(err)
	}
	return n
}
