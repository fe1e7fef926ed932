package pages

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	screenLines   = 24
	screenColumns = 80
)

// TestOverview: what "go doc erpc" prints before the list of names fits two screens, and the first
// screen shows how to serve and how to call.
func TestOverview(t *testing.T) {
	cmd := exec.Command("go", "doc", "./erpc")
	cmd.Dir = filepath.FromSlash(top)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	overview, list, found := strings.Cut(string(out), "\n\nconst ")
	if !found || !strings.Contains(list, "type Client struct") {
		t.Fatal("go doc prints no list of names")
	}
	lines := strings.Split(overview, "\n")
	if len(lines) > 2*screenLines {
		t.Errorf("%d lines before the list of names, at most %d", len(lines), 2*screenLines)
	}
	for i, line := range lines[1:] {
		if utf8.RuneCountInString(line) > screenColumns {
			t.Errorf("line %d has more than %d columns: %s", i+2, screenColumns, line)
		}
	}
	first := strings.Join(lines[:min(screenLines, len(lines))], "\n")
	for _, name := range []string{
		"NewServer(", ".Handle(", ".Serve(", "udp.Listen(", "Dial(", ".Call(", "Loop", "Pool", "Rpc",
		"ErrNotRun",
	} {
		if !strings.Contains(first, name) {
			t.Errorf("the first screen does not name %s", name)
		}
	}
}
