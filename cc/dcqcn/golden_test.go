package dcqcn

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write testdata anew from what the code does")

// script calls visit for each answer of a made-up session, time in ns.
func script(visit func(part string, now int64, bytes int, ce bool)) {
	now := int64(1_000_000)
	part := func(name string, n, every int64, bytes int, ce func(i int64) bool) {
		for i := range n {
			now += every
			visit(name, now, bytes, ce(i))
		}
	}
	never, always := func(int64) bool { return false }, func(int64) bool { return true }
	part("no marks", 2, 10*us, 1000, never)
	part("all marked", 40, 10*us, 1000, always)
	part("fast recovery", 30, 13*us, 1000, never)
	part("some marks", 40, 11*us, 1000, func(i int64) bool { return i*i%7 == 1 })
	part("large packets", 30, 29*us, 1_900_000, never)
	part("marks again", 10, 50*us, 9000, always)
	part("a pause", 2, 3_000*us, 1000, never)
	part("a mark", 1, 5*us, 1000, always)
	part("a long pause", 1, 1_000_000*us, 1000, never)
	part("back at link rate", 4, 60*us, 1000, always)
}

// TestGolden compares the rates of a script, to the last bit, with those in testdata:
// they are the same on all processors.
func TestGolden(t *testing.T) {
	var b bytes.Buffer
	c := New(filled(t, Config{}), 3.125e9)
	last := ""
	script(func(part string, now int64, bytes int, ce bool) {
		if part != last {
			fmt.Fprintf(&b, "%s\n", part)
			last = part
		}
		rate, _ := c.OnAck(now, 1, 1, bytes, ce)
		fmt.Fprintf(&b, "  now %d bytes %d marked %t: rate %s target %s alpha %s\n",
			now, bytes, ce, exact(rate), exact(c.target), exact(c.alpha))
	})
	fmt.Fprintf(&b, "timeout\n  rate %s\n", exact(c.OnTimeout(2_000_000_000)))
	const name = "testdata/trace.txt"
	if *rewrite {
		if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	got, lines := bytes.Split(b.Bytes(), []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range min(len(got), len(lines)) {
		if !bytes.Equal(got[i], lines[i]) {
			t.Fatalf("%s:%d: got %q, want %q", name, i+1, got[i], lines[i])
		}
	}
	if len(got) != len(lines) {
		t.Fatalf("%d lines, want %d", len(got), len(lines))
	}
}

// exact writes f so that it reads back to the same bits.
func exact(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
