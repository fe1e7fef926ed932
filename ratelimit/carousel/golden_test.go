package carousel_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/ratelimit/carousel"
)

var rewrite = flag.Bool("rewrite", false, "write the transcripts in testdata anew")

// TestTranscripts plays testdata/*.txt. A line that starts with "> " is a command, one
// with "#" a comment; the command before must print all others. Times are
// written as durations since 0. With -rewrite the files are written anew: read the
// difference.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d transcripts, %v", len(files), err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			old, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(old))
			if *rewrite {
				if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(old) {
				t.Errorf("%s changed; if that is meant, run with -rewrite. Got:\n%s", name, got)
			}
		})
	}
}

// play runs the commands of a transcript and returns it with what they printed.
func play(t *testing.T, text string) string {
	var s script
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if cmd, ok := strings.CutPrefix(line, "> "); ok {
			b.WriteString(line + "\n")
			for _, l := range s.run(t, cmd) {
				b.WriteString("  " + l + "\n")
			}
		} else if line == "" || line[0] == '#' {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// script is the state between the commands of a transcript.
type script struct {
	w   *carousel.Wheel[string]
	out []string
}

func (s *script) print(format string, args ...any) {
	s.out = append(s.out, fmt.Sprintf(format, args...))
}

// run runs one command: a name and arguments name=duration; insert takes what it
// inserts first. It returns what the command printed, and the state after it.
func (s *script) run(t *testing.T, line string) []string {
	s.out = nil
	words := strings.Fields(line)
	args := map[string]time.Duration{}
	for _, word := range words[1:] {
		if name, value, ok := strings.Cut(word, "="); ok {
			d, err := time.ParseDuration(value)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			args[name] = d
		}
	}
	switch now := carousel.Time(args["now"]); words[0] {
	case "wheel":
		s.makeWheel(carousel.Config{Granularity: args["granularity"], Horizon: args["horizon"]}, now)
	case "insert":
		if s.w.Insert(carousel.Time(args["at"]), words[1]) {
			s.print("clipped")
		}
	case "advance":
		s.w.Advance(now)
	case "pop":
		if v, ok := s.w.Pop(now); ok {
			s.print("%s", v)
		}
	case "drain":
		for v, ok := s.w.Pop(now); ok; v, ok = s.w.Pop(now) {
			s.print("%s", v)
		}
	default:
		t.Fatalf("no such command: %s", line)
	}
	s.state()
	return s.out
}

func (s *script) makeWheel(c carousel.Config, now carousel.Time) {
	w, err := carousel.New[string](c, now)
	if err != nil {
		s.print("%v", err)
		return
	}
	s.w = w
	s.print("granularity=%v horizon=%v", w.Granularity(), w.Horizon())
}

// state prints what the wheel says of itself.
func (s *script) state() {
	if s.w == nil {
		return
	}
	if at, ok := s.w.Next(); ok {
		s.print("next=%v len=%d clipped=%d", time.Duration(at), s.w.Len(), s.w.Clipped())
	} else {
		s.print("empty clipped=%d", s.w.Clipped())
	}
}
