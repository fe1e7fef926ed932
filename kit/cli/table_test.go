package cli

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestTable: lines keep within COLUMNS, no word is lost, and without a limit nothing changes.
func TestTable(t *testing.T) {
	fill := func(columns string) string {
		t.Setenv("COLUMNS", columns)
		var b strings.Builder
		table := NewTable(&b)
		fmt.Fprint(table, "bench\trate over udp, requests 32 B\nload\t60 in flight ääää\n")
		fmt.Fprint(table, "cores\t"+strings.Repeat("x", 90)+" end\n\nlast\n")
		if err := table.Flush(); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	whole := fill("")
	if !strings.HasPrefix(whole, "bench  rate over udp, requests 32 B\nload   60 in") {
		t.Errorf("%q", whole)
	}
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), "") }
	for columns := 1; columns < 120; columns++ {
		text := fill(fmt.Sprint(columns))
		if squeeze(text) != squeeze(whole) {
			t.Fatalf("%d columns: %q", columns, text)
		}
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > columns {
				t.Fatalf("%d columns: %q has %d", columns, line, n)
			}
		}
	}
	if got := fill("20"); !strings.HasPrefix(got, "bench  rate over\n       udp, requests") {
		t.Errorf("%q", got)
	}
}
