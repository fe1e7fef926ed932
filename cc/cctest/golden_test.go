package cctest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestScript(t *testing.T) {
	var b bytes.Buffer
	f := &fixed{rate: 0.1, bypass: 7}
	Script{
		{"one", 2, 10, func(i int64) Event {
			return Event{RTT: time.Duration(i), Base: 3, Bytes: 4, CE: i == 1}
		}},
		{"two", 1, 5, func(int64) Event { return Event{Timeout: true} }},
	}.Play(&b, " ", f, func(e Event, rate float64, bypass time.Duration) string {
		return fmt.Sprint(e.Now, e.Timeout, " ", Exact(rate), " ", int64(bypass))
	})
	const want = " one\n   1000010 false 0.1 7\n   1000020 false 0.1 7\n two\n" +
		"   1000025 true 0.1 0\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", &b, want)
	}
	if want := (Event{Now: 1000020, RTT: 1, Base: 3, Bytes: 4, CE: true}); len(f.told) != 2 ||
		f.told[1] != want {
		t.Errorf("told %+v", f.told)
	}
}

func TestGolden(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.txt")
	if err := golden(file, []byte("a\nb\n"), false); !os.IsNotExist(err) {
		t.Errorf("without a file: %v", err)
	}
	if err := golden(file, []byte("a\nb\n"), true); err != nil {
		t.Fatal(err)
	}
	Golden(t, file, []byte("a\nb\n"))
	for _, tt := range []struct{ got, says string }{
		{"a\nc\n", `:2: got "c", want "b"`}, {"a\nb\n\n", "4 lines, want 3"}, {"a\n", `:2: got ""`},
		{"a\nb", "2 lines"}, {"", "nothing"},
	} {
		if err := golden(file, []byte(tt.got), false); err == nil ||
			!strings.Contains(err.Error(), tt.says) {
			t.Errorf("%q: %v, want %s", tt.got, err, tt.says)
		}
		if *rewrite {
			continue
		}
		if got := record(t, func(tb testing.TB) { Golden(tb, file, []byte(tt.got)) }); !got.failed {
			t.Errorf("%q passes", tt.got)
		}
	}
}
