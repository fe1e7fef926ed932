package memcached

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/kv/mica"
)

// TestEdges: the largest that may be of each number and text, and one more.
func TestEdges(t *testing.T) {
	s, now := newServer(t, 1, mica.Config{})
	long := strings.Repeat("o", 32)
	check(t, s, "mn\n< MN\n"+
		"ms a 1 F4294967295\nx\n< HD\nmg a f\n< HD f4294967295\n"+
		"ms a 1 F4294967296\nx\n< CLIENT_ERROR bad token in command line format\n"+
		"mg a O"+long+"\n< HD O"+long+"\nmg a O"+long+"o\n"+
		"< CLIENT_ERROR bad token in command line format\n"+
		"ms b 2147483646\n< CLIENT_ERROR bad data chunk\nmn", 1000)
	key := strings.Repeat("k", maxKey)
	check(t, s, "ms "+key+" 1\nx\n< HD\nmg "+key+"\n< HD\n"+
		"mg k"+key+"\n< CLIENT_ERROR bad command line format", 1000)
	check(t, s, fmt.Sprint("set m 0 ", month, " 1\nx\n< STORED\nset n 0 ", month+1,
		" 1\nx\n< STORED\nmg m t\n< HD t", month, "\nmg n\n< EN"), 1000)
	*now += month
	check(t, s, "mg m\n< EN", 1000)
}

// TestStatsLines: the counters that stats prints.
func TestStatsLines(t *testing.T) {
	s, _ := newServer(t, 2, mica.Config{})
	check(t, s, "set a 0 0 1\nx\n< STORED\nset b 0 -1 1\nx\n< STORED\nget a\n"+
		"< VALUE a 0 1\n< x\n< END\nget c\n< END\nget d\n< END", 1000)
	got := play(s, "stats\r\n", 1000)
	for _, line := range []string{"cmd_get 3", "cmd_set 2", "get_hits 1", "get_misses 2",
		"total_items 2", "evictions 0", "uptime 0", "partitions 2", "version 1.2.3"} {
		if !strings.Contains(got, "STAT "+line+"\r\n") {
			t.Errorf("no %q in %q", line, got)
		}
	}
	s.start = s.start.Add(-5 * time.Second)
	if got := play(s, "stats\r\n", 1000); !strings.Contains(got, "uptime 5\r\n") {
		t.Errorf("after 5 s: %q", got)
	}
}

// TestWhatIsFull: clients are told what memcached tells them, and stats say what is full.
func TestWhatIsFull(t *testing.T) {
	for itemSize, want := range map[int]string{48: "0", mica.MaxValue: "1"} {
		s, _ := newServer(t, 1, mica.Config{Mode: mica.Store, Memory: 64 << 10, ItemSize: itemSize})
		got, n := "STORED\r\n", 0
		for ; got == "STORED\r\n"; n++ {
			got = play(s, fmt.Sprintf("set %d 0 0 0\r\n\r\n", n), 1000)
		}
		if got != noMemory+"\r\n" || n < 100 {
			t.Errorf("item %d: %q", n, got)
		}
		if got = play(s, "stats\r\n", 1000); !strings.Contains(got,
			"STAT store_no_memory 1\r\nSTAT store_full_index "+want+"\r\n") {
			t.Errorf("%q", got)
		}
	}
}

// TestAnswersBefore: answers leave before the server waits for the rest of a line or of a value,
// which the client may send only then.
func TestAnswersBefore(t *testing.T) {
	s, _ := newServer(t, 1, mica.Config{})
	dial := listen(t, s)
	for _, v := range []struct{ first, answer, rest, last string }{
		{"version\r\nver", "VERSION 1.2.3\r\n", "sion\r\n", "VERSION 1.2.3\r\n"},
		{"mn\r\nset a 0 0 5\r\nhe", "MN\r\n", "llo\r\n", "STORED\r\n"},
		{"mn\r\nset a 0 0 5\r\nhello\r", "MN\r\n", "\n", "STORED\r\n"},
		{"mn\r\nset a 0 0 9000\r\n" + strings.Repeat("x", 9000) + "\r", "MN\r\n", "\n", "STORED\r\n"},
	} {
		c := dial()
		say(t, c, v.first, v.answer)
		say(t, c, v.rest, v.last)
	}
}

// say sends text and reads the answer.
func say(t *testing.T, c net.Conn, text, want string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("%q: %q, %v", text, got, err)
	}
}
