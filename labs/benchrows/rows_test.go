package benchrows

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// rows are two, of which the second takes half the time of the first in each round.
func rows(ran *[]string) []Row {
	run := func(name string, ns ...float64) func(time.Duration) float64 {
		return func(time.Duration) float64 {
			*ran = append(*ran, name)
			v := ns[0]
			ns = ns[1:]
			return v
		}
	}
	return []Row{
		{Name: "slow", Run: run("slow", 100, 40, 60)},
		{Name: "fast", Base: "slow", Bar: 2, Run: run("fast", 50, 20, 30)},
		{Name: "late", Base: "fast", Bar: 1, Run: run("late", 51, 40, 15)},
	}
}

// TestRows: rows take turns, ratios are those of a round, and a bar is met or missed.
func TestRows(t *testing.T) {
	var ran []string
	list := rows(&ran)
	times := Measure(list, 3, 0)
	want := strings.Repeat("slow fast late ", 3)
	if got := strings.Join(ran, " ") + " "; got != want {
		t.Errorf("order %q", got)
	}
	if got := times.Ratios("late", "fast"); !slices.Equal(got, []float64{50.0 / 51, 0.5, 2}) {
		t.Errorf("ratios %v", got)
	}
	var out bytes.Buffer
	if err := times.Report(&out, list); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	for i, words := range []string{"row ns best", "slow 60.0 40.0 16.67",
		"fast 30.0 20.0 33.33 2.00 2.00 to 2.00 slow 2.00 met",
		"late 40.0 15.0 25.00 0.98 0.50 to 2.00 fast 1.00 missed"} {
		if got := strings.Join(strings.Fields(lines[i]), " "); !strings.HasPrefix(got, words) {
			t.Errorf("%q, want %q", got, words)
		}
	}
	out.Reset()
	var figures []figure
	err := errors.Join(times.JSON(&out, list), json.Unmarshal(out.Bytes(), &figures))
	if err != nil || len(figures) != 3 || figures[1].Ratio != 2 || figures[1].Median != 30 ||
		len(figures[2].NS) != 3 || figures[0].Base != "" {
		t.Errorf("%v: %s", err, out.String())
	}
}

// TestChoose: a row that is chosen brings its base.
func TestChoose(t *testing.T) {
	for _, row := range []struct{ names, want string }{
		{"fast", "slow fast"}, {"sl", "slow"}, {"none", ""}, {"la,slow", "slow fast late"},
	} {
		var ran, got []string
		for _, r := range Choose(rows(&ran), strings.Split(row.names, ",")) {
			got = append(got, r.Name)
		}
		if strings.Join(got, " ") != row.want {
			t.Errorf("%s: %v, want %s", row.names, got, row.want)
		}
	}
}

func TestMedian(t *testing.T) {
	list := []float64{9, 1, 5, 3}
	if m := Median(list); m != 5 || list[0] != 9 {
		t.Errorf("%v, %v", m, list)
	}
}

// TestClock: a loop goes on until its time is over by the clock, in operations of fn.
func TestClock(t *testing.T) {
	now := time.Duration(0)
	c := Clock{Thread: func() time.Duration { return now }}
	if ns := c.Loop(100, 4, func() { now += 40 }); ns != 10 || now != 120 {
		t.Errorf("%v ns, until %d", ns, now)
	}
	for _, name := range []string{"wall", "cpu"} {
		if c, err := NewClock(name); err != nil || c.Thread() < 0 || c.Process() < 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := NewClock("sun"); err == nil {
		t.Error("there is a clock sun")
	}
}

// TestReplies reads what redis can say.
func TestReplies(t *testing.T) {
	for _, row := range []struct {
		said, text, members string
		n                   int
		fails               bool
	}{
		{":42\r\n", "42", "", 0, false}, {"+OK\r\n", "OK", "", 0, false},
		{"$3\r\nred\r\n", "red", "", 0, false}, {"$-1\r\n", "", "", 0, false},
		{"*2\r\n$1\r\na\r\n:7\r\n", "", "a 7 ", 2, false},
		{"-ERR no\r\n", "", "", 0, true}, {"\r\n", "", "", 0, true}, {"x", "", "", 0, true},
		{"$3\r\nre", "re\x00", "", 0, true}, {"OK\n", "", "", 0, true},
	} {
		p := Peer{In: bufio.NewReader(strings.NewReader(row.said))}
		members := ""
		text, n := p.Reply(func(b []byte) { members += string(b) + " " })
		if string(text) != row.text || n != row.n || members != row.members ||
			(p.Err != nil) != row.fails {
			t.Errorf("%q: %q, %d members %q, %v", row.said, text, n, members, p.Err)
		}
	}
	var out bytes.Buffer
	p := Peer{Out: bufio.NewWriter(&out)}
	p.Command("SET", "key", "")
	const want = "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$0\r\n\r\n"
	if err := p.Out.Flush(); err != nil || out.String() != want {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// TestPipelined: no more than depth operations are under way, half of them are read at a time, and
// all are read in the end.
func TestPipelined(t *testing.T) {
	var out bytes.Buffer
	p := Peer{Out: bufio.NewWriter(&out)}
	open, most, asked, taken := 0, 0, 0, 0
	ns := p.Pipelined(time.Millisecond, 8, func() {
		open++
		asked++
		most = max(most, open)
	}, func() {
		open--
		taken++
	})
	if open != 0 || most != 8 || asked != taken || asked < 8 || ns <= 0 {
		t.Errorf("%d under way, at most %d, %d asked, %d taken, %v ns", open, most, asked, taken, ns)
	}
	p.Pipelined(time.Hour, 8, func() {}, func() { p.fail(io.EOF) })
	if p.Err != io.EOF {
		t.Errorf("%v", p.Err)
	}
}

// TestClosed: each slot goes on until the time is over, or an error comes.
func TestClosed(t *testing.T) {
	for _, failing := range []bool{false, true} {
		var c Closed
		var open []uint64
		issue := func(slot uint64) { open = append(open, slot) }
		seen := map[uint64]int{}
		ns := c.Run(time.Millisecond, 4, issue, func(until func() bool) error {
			for !until() {
				slot := open[0]
				open = open[1:]
				if seen[slot]++; failing && len(seen) == 3 {
					c.Fail(io.EOF)
					c.Fail(io.ErrNoProgress)
				}
				c.Ended(slot, issue)
			}
			return nil
		})
		if ns <= 0 || failing != (c.Err == io.EOF) || !failing && (len(seen) != 4 || len(open) != 0) {
			t.Errorf("%v ns, %v, %d slots, %d open", ns, c.Err, len(seen), len(open))
		}
	}
}

// childKey makes the test binary a child that prints this.
const childKey = "ERPC_BENCHROWS_TEST_CHILD"

func TestMain(m *testing.M) {
	if text := os.Getenv(childKey); text != "" {
		fmt.Println(text)
		fmt.Fprintln(os.Stderr, "its errors")
		UntilParentEnds(func() { os.Exit(0) })
	}
	os.Exit(m.Run())
}

// TestChild: a child says its address, or why it has none, and ends with its parent's end of the
// pipe.
func TestChild(t *testing.T) {
	for text, want := range map[string]string{`"here:1"`: "here:1", "nonsense": ""} {
		t.Setenv(childKey, text)
		c, err := StartChild(os.Args[0])
		if err != nil {
			t.Fatal(err)
		}
		addr, err := c.Address()
		if addr != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", text, addr, err)
		}
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}
	if _, err := StartChild("/no/such/program"); err == nil {
		t.Error("a program that there is not has started")
	}
	if _, err := StartPeer("no-such-program", nil); err == nil {
		t.Error("a server that there is not has started")
	}
}
