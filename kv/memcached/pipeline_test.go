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

// visited counts the visits to the partitions of a store.
type visited struct {
	Store
	times int
}

func (v *visited) Do(part int, fn func(p *mica.Partition)) error {
	v.times++
	return v.Store.Do(part, fn)
}

// TestPipelinedGets: gets of one key that come together share a visit to each partition, and have
// the answers that they have alone.
func TestPipelinedGets(t *testing.T) {
	s, _ := newServer(t, 2, mica.Config{})
	v := &visited{Store: s.cfg.Store}
	s.cfg.Store = v
	var set strings.Builder
	for i := range 10 {
		fmt.Fprintf(&set, "set key%d 0 0 1\r\n%d\r\n", i, i)
	}
	play(s, set.String(), 1<<20)
	long := strings.Repeat("k", maxKey)
	for _, row := range []struct {
		said   string
		visits int // at most
	}{
		{strings.Repeat("get key1\r\nget key2\nget none\r\n", 21), 2},
		{strings.Repeat("get key1\r\nget key2\r\n", batch), 4},
		{strings.Repeat("gets key1\r\n", 10) + strings.Repeat("get key1\r\n", 10), 2},
		{"get key1\r\nset key1 0 0 1\r\nX\r\nget key1\r\nset key1 0 0 1\r\n1\r\nget key1\r\n", 5},
		{"get key1\r\nget " + long + "\r\nget " + long + "k\r\nget key2\r\n", 4},
		{"get key1\r\nget \r\nget\r\nget  key2\r\nget key3 key4\r\nget key5 \r\ng\r\n\r\nget key6", 6},
		{"get key1\r\ngets key2\r\ngetx key3\r\nget key4\r\nquit\r\nget key5\r\n", 4},
	} {
		alone := play(s, row.said, 1)
		v.times = 0
		together := play(s, row.said, 1<<20)
		if together != alone {
			t.Errorf("%.60q: %q, want %q", row.said, together, alone)
		}
		if v.times > row.visits {
			t.Errorf("%.60q: %d visits, want %d", row.said, v.times, row.visits)
		}
	}
}

// TestPipelines: commands that come together share visits to their partition, whatever they are.
func TestPipelines(t *testing.T) {
	s, _ := newServer(t, 1, mica.Config{})
	v := &visited{Store: s.cfg.Store}
	s.cfg.Store = v
	for _, said := range []string{"set k 0 0 1\r\nx\r\n", "mg k v\r\n", "ms k 1\r\n1\r\n",
		"touch k 0\r\n", "gat 0 k\r\n", "incr k 1\r\n", "decr k 1\r\n", "ma k\r\n",
		"append k 0 0 0\r\n\r\n", "get k k\r\n",
		"add k 0 0 1\r\nx\r\nmn\r\n", "set k 0 x 1\r\nx\r\nget k\r\n", "md k\r\n", "delete k\r\n"} {
		const times = 32
		alone := strings.Repeat(play(s, said, 1<<20), times)
		v.times = 0
		got := play(s, strings.Repeat(said, times), 1<<20)
		if most := 3; v.times > most { // a batch for each part of an answer
			t.Errorf("%q: %d visits for %d, want %d at most", said, v.times, times, most)
		}
		if said[0] != 'i' && said[0] != 'd' && said[:2] != "md" && got != alone {
			t.Errorf("%q: %q, want %q", said, got, alone)
		}
	}
}

// TestWholeLines: a long get is read whole before it is answered, so that its client need not read
// meanwhile, and is refused as a whole.
func TestWholeLines(t *testing.T) {
	s, _ := newServer(t, 2, mica.Config{})
	long := strings.Repeat("k", maxKey+1)
	for _, row := range []struct{ said, want string }{
		{"set b 0 0 2\r\nxy", "STORED\r\n"},
		{"get" + strings.Repeat(" b", 100_000),
			strings.Repeat("VALUE b 0 2\r\nxy\r\n", 100_000) + "END\r\n"},
		{"gat 0 " + strings.Repeat(" ", 100_000) + "b", "VALUE b 0 2\r\nxy\r\nEND\r\n"},
		{"get" + strings.Repeat(" b", 50_000) + " " + long, badFormat + "\r\n"},
		{"gets " + strings.Repeat("k", 300_000), badFormat + "\r\n"},
	} {
		c, far := net.Pipe() // without any buffer
		s.take(far)
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		if _, err := io.WriteString(c, row.said+"\r\n"); err != nil {
			t.Fatalf("%.20q: %v", row.said, err)
		}
		got := make([]byte, len(row.want))
		if n, err := io.ReadFull(c, got); err != nil || string(got) != row.want {
			t.Errorf("%.20q: %.80q, %v", row.said, got[:n], err)
		}
		until(t, "memory of lines is given back", func() bool { return s.lines.used() == 0 })
		_ = c.Close()
	}
}
