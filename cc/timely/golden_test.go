package timely

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write testdata anew from what the code does")

// script calls visit for each sample of a made-up session, times in ns.
func script(visit func(part string, now, rtt, base int64)) {
	now := int64(1_000_000)
	part := func(name string, n int, every, base int64, rtt func(i int64) int64) {
		for i := range int64(n) {
			now += every
			visit(name, now, rtt(i), base)
		}
	}
	part("idle", 3, 10*us, 6*us, func(i int64) int64 { return 6*us + i*100 })
	part("a queue builds up", 20, 3*us, 6*us, func(i int64) int64 { return 20*us + i*7*us })
	part("it stands", 12, 20*us, 6*us, func(int64) int64 { return 90 * us })
	part("it falls and rises", 24, 8*us, 6*us, func(i int64) int64 { return 60*us + (i*i*13)%37*us })
	part("incast", 6, 50*us, 6*us, func(i int64) int64 { return 900*us + i*100*us })
	part("gone", 10, 5*us, 6*us, func(int64) int64 { return 7 * us })
	part("no samples", 2, 5*us, 6*us, func(int64) int64 { return 0 })
	part("a long pause", 2, 1_000_000*us, 6*us, func(int64) int64 { return 52 * us })
	part("it drains slowly", 20, 9*us, 6*us, func(i int64) int64 { return 150*us - i*5*us })
	part("near RTTRef", 12, 50*us, 6*us, func(i int64) int64 { return 50*us + i%3*us })
}

// TestGolden compares the rates of a script, to the last bit, with those in testdata:
// they are the same on all processors.
func TestGolden(t *testing.T) {
	var b bytes.Buffer
	for _, far := range []int64{0, 300 * us} {
		for _, v := range []Variant{Patched, Paper} {
			c := New(filled(t, Config{Variant: v}), 3.125e9)
			last := ""
			fmt.Fprintf(&b, "%v, path longer by %d ns\n", v, far)
			script(func(part string, now, rtt, base int64) {
				if part != last {
					fmt.Fprintf(&b, "  %s\n", part)
					last = part
				}
				if rtt > 0 {
					rtt += far
				}
				rate, bypass := c.OnAck(now, rtt, base+far, 1000, false)
				fmt.Fprintf(&b, "    now %d rtt %d rate %s bypass %d\n", now, rtt, exact(rate), bypass)
			})
			fmt.Fprintf(&b, "  timeout\n    rate %s\n", exact(c.OnTimeout(0)))
		}
	}
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
