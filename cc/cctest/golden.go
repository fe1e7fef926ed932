package cctest

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/cc"
)

var rewrite = flag.Bool("rewrite", false, "write testdata anew from what the code does")

// Part is a stretch of a made-up session: N events, each Every after the one before.
type Part struct {
	Name  string
	N     int64
	Every time.Duration
	// Event returns the i-th event, from 0. Its time is filled in.
	Event func(i int64) Event
}

// Script is a made-up session. It begins at 1 ms.
type Script []Part

// Play tells c the events of s and writes what comes of it to w: indent and the name of
// each part, then indent, two spaces and what line returns for each event, with the
// rate in bytes per second and the bypass limit that c returned.
func (s Script) Play(w io.Writer, indent string, c cc.Controller,
	line func(e Event, rate float64, bypass time.Duration) string) {
	now := cc.Time(time.Millisecond)
	for _, part := range s {
		fmt.Fprintf(w, "%s%s\n", indent, part.Name)
		for i := range part.N {
			now = now.Add(part.Every)
			e := part.Event(i)
			e.Now = now
			rate, bypass := e.tell(c)
			fmt.Fprintf(w, "%s  %s\n", indent, line(e, rate, bypass))
		}
	}
}

// Golden fails tb at the first line of got that is not as in file. With the flag
// -rewrite it writes got to file first.
func Golden(tb testing.TB, file string, got []byte) {
	tb.Helper()
	if err := golden(file, got, *rewrite); err != nil {
		tb.Fatal(err)
	}
}

func golden(file string, got []byte, rewrite bool) error {
	if rewrite {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			return err
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if len(got) == 0 {
		return errors.New("nothing to compare")
	}
	lines, wants := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range min(len(lines), len(wants)) {
		if !bytes.Equal(lines[i], wants[i]) {
			return fmt.Errorf("%s:%d: got %q, want %q", file, i+1, lines[i], wants[i])
		}
	}
	if len(lines) != len(wants) {
		return fmt.Errorf("%s: %d lines, want %d", file, len(lines), len(wants))
	}
	return nil
}

// Exact writes f so that it reads back to the same bits.
func Exact(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
