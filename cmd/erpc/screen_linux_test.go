package main

import (
	"bytes"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/userspace-rpc/erpc/kit/cli"
)

// openTerminal returns both ends of a pseudo terminal of some size.
func openTerminal(t *testing.T, columns, rows uint16) (far, near *os.File) {
	t.Helper()
	far, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("there are no pseudo terminals: ", err)
	}
	if err := unix.IoctlSetPointerInt(int(far.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(far.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	near, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	size := unix.Winsize{Col: columns, Row: rows}
	if err := unix.IoctlSetWinsize(int(near.Fd()), unix.TIOCSWINSZ, &size); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = near.Close()
		_ = far.Close()
	})
	return far, near
}

// escapes position and paint text.
var escapes = regexp.MustCompile(`\x1b\[[0-9;?]*[a-zA-Z]`)

// TestScreen: on a terminal of 40 columns frames fit, p pauses, q ends, and the screen comes back.
func TestScreen(t *testing.T) {
	_, socket := watched(t, "")
	for _, noColour := range []string{"", "1"} {
		t.Setenv("NO_COLOR", noColour)
		far, near := openTerminal(t, 40, 15)
		ended := make(chan int, 1)
		go func() {
			args := []string{"top", socket, "-i", "20ms"}
			ended <- run(t.Context(), args, near, near, near)
		}()
		var all bytes.Buffer
		readUntil := func(text string) {
			b := make([]byte, 4096)
			for from := all.Len(); !strings.Contains(all.String()[from:], text); {
				n, err := far.Read(b)
				if err != nil {
					t.Fatalf("no %q: %v\n%q", text, err, &all)
				}
				all.Write(b[:n])
			}
		}
		readUntil("CALLS/S")
		if _, err := far.WriteString("p"); err != nil {
			t.Fatal(err)
		}
		readUntil("paused")
		if _, err := far.WriteString("q"); err != nil {
			t.Fatal(err)
		}
		if status := <-ended; status != cli.Done {
			t.Errorf("status %d", status)
		}
		readUntil("\x1b[?1049l")
		if colour := strings.Contains(all.String(), "\x1b[1m"); colour != (noColour == "") {
			t.Errorf("NO_COLOR=%s: colour %t", noColour, colour)
		}
		for line := range strings.SplitSeq(escapes.ReplaceAllString(all.String(), "\n"), "\n") {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\r")); n > 40 {
				t.Errorf("%d columns: %q", n, line)
			}
		}
	}
}
