package memcached

import (
	"net"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/kv/mica"
)

// TestRefusedValues: the value of a command that is refused is never run as a command.
func TestRefusedValues(t *testing.T) {
	long := strings.Repeat("k", 300)
	const bad, error = "CLIENT_ERROR bad command line format\r\n", "ERROR\r\n"
	const chunk = "CLIENT_ERROR bad data chunk\r\n"
	const token = "CLIENT_ERROR bad token in command line format\r\n"
	for _, row := range []struct {
		line, answer string
		open         bool // the connection goes on
	}{
		{"set " + long + " 0 0 9", bad, true},
		{"add " + long + " 0 0 9", bad, true},
		{"set " + long + " 0 0 9 noreply", "", true},
		{"set a x 0 9", bad, true},
		{"set a -1 0 9", bad, true},
		{"set a 4294967296 0 9", bad, true},
		{"set a 0 x 9", bad, true},
		{"replace a 0 x 9 noreply", "", true},
		{"append a 0 0 9 1 2", bad, true},
		{"prepend a 0 0 9 1", bad, true},
		{"cas a 0 0 9", "ERROR\r\n", true},
		{"cas a 0 0 9 x", bad, true},
		{"cas a 0 0 9 noreply", "", true},
		{"cas a 0 0 9 1 2", bad, true},
		{"set a 0 0 x", bad, false},
		{"set a 0 0 x noreply", bad, false},
		{"set a 0 0 noreply", bad, false},
		{"set a 0 0 -1", bad, false},
		{"set a 0 0 2147483646", bad, false},
		{"set a 0 0 99999999999999999999", bad, false},
		{"set a 0 0 9x", bad, false},
		{"set a 0 0", error, false},
		{"set", error, false},
		{"cas a", error, false},
		{"ms " + long + " 9", bad, true},
		{"ms a 9 z", "CLIENT_ERROR invalid flag\r\n", true},
		{"ms a 9 MX", token, true},
		{"ms a 9 F4294967296", token, true},
		{"ms !! 9 b", "CLIENT_ERROR error decoding key\r\n", true},
		{"ms a x", chunk, false},
		{"ms a -1", chunk, false},
		{"ms a S9", chunk, false},
		{"ms a 2147483646", chunk, false},
		{"ms a", bad, false},
		{"ms", error, false},
		{"GET / HTTP/1.1", "", false},
		{"POST /", "", false},
		{"PUT /x HTTP/1.0", "", false},
		{"Host: here", "", false},
		{"\x80\x01", "", false},
		{"\x16\x03\x01", "", false},
	} {
		for _, piece := range []int{1, 1 << 20} {
			s, _ := newServer(t, 1, mica.Config{})
			got := play(s, "set b 0 0 1\r\nx\r\n"+row.line+"\r\nflush_all\r\nmn\r\n", piece)
			want := "STORED\r\n" + row.answer
			if row.open {
				want += "MN\r\n"
			}
			if got != want {
				t.Errorf("%.40q: %q, want %q", row.line, got, want)
			}
			if got := play(s, "get b\r\n", 100); got != "VALUE b 0 1\r\nx\r\nEND\r\n" {
				t.Errorf("%.40q: the value was run: %q", row.line, got)
			}
		}
	}
	s, _ := newServer(t, 1, mica.Config{})
	for _, line := range []string{"set " + long + " 0 0 0", "ms a 0 MX"} {
		if got := play(s, line+"\r\n\r\nmn\r\n", 100); strings.Count(got, "\r\n") != 2 {
			t.Errorf("%.40q and nothing: %q", line, got)
		}
	}
	huge := strings.Repeat("flush_all\r\n", 1<<18)
	for _, line := range []string{"set a 0 0 ", "ms a "} {
		got := play(s, line+strconv.Itoa(len(huge))+"\r\n"+huge+"\r\nmn\r\n", 1<<20)
		if got != tooLarge+"\r\nMN\r\n" {
			t.Errorf("%s: %q", line, got)
		}
	}
}

// TestAnswersInOrder: keys of one get, and gets that come together, are answered in their order
// when the answers are more than are made at a time.
func TestAnswersInOrder(t *testing.T) {
	s, _ := newServer(t, 3, mica.Config{Memory: 8 << 20})
	var set, keys, gets, all, each strings.Builder
	for i := range 2 * batch {
		key, size := "key"+strconv.Itoa(i), i*i%97*300
		if i%50 == 0 {
			size = mica.MaxValue / 2
		}
		value := strings.Repeat(string(rune('a'+i%26)), size)
		set.WriteString("set " + key + " 0 0 " + strconv.Itoa(size) + " noreply\r\n" + value + "\r\n")
		keys.WriteString(" " + key + " none")
		gets.WriteString("get " + key + "\r\n")
		item := "VALUE " + key + " 0 " + strconv.Itoa(size) + "\r\n" + value + "\r\n"
		all.WriteString(item)
		each.WriteString(item + "END\r\n")
	}
	play(s, set.String(), 1<<20)
	for said, want := range map[string]string{
		"get" + keys.String() + "\r\n":   all.String() + "END\r\n",
		"gat 0" + keys.String() + "\r\n": all.String() + "END\r\n",
		gets.String():                    each.String(),
	} {
		if got := play(s, said, 1<<20); got != want {
			t.Errorf("%.20q: %d bytes, want %d", said, len(got), len(want))
		}
	}
}

// stuck is a connection whose client reads nothing: the first answer tells, and waits for the end.
type stuck struct {
	tape
	full chan struct{}
	end  chan struct{}
}

func (s *stuck) Write([]byte) (int, error) {
	close(s.full)
	<-s.end
	return 0, net.ErrClosed
}

// TestUnreadAnswers: what a client asks for and does not read costs the memory of a largest value
// and little more, however much it is.
func TestUnreadAnswers(t *testing.T) {
	for _, row := range []string{"get" + strings.Repeat(" k", 64) + "\r\n",
		"gat 0" + strings.Repeat(" k", 64) + "\r\n", strings.Repeat("get k\r\n", 64),
		"get" + strings.Repeat(" k l", 1000) + "\r\n", strings.Repeat("mg k v\r\n", 64)} {
		s, _ := newServer(t, 2, mica.Config{Memory: 8 << 20})
		value := strings.Repeat("x", mica.MaxValue)
		play(s, "set k 0 0 1048576\r\n"+value+"\r\nset l 0 0 1048576\r\n"+value+"\r\n", 1<<20)
		const conns = 4
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		end, ended := make(chan struct{}), make(chan struct{})
		for range conns {
			c := &stuck{tape{in: strings.NewReader(row)}, make(chan struct{}), end}
			go func() {
				newConn(s, c).serve()
				ended <- struct{}{}
			}()
			<-c.full
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		close(end)
		for range conns {
			<-ended
		}
		if used := int64(after.HeapAlloc-before.HeapAlloc) / conns; used > 3<<20 {
			t.Errorf("%.20q: %d KiB a connection", row, used>>10)
		}
	}
}
