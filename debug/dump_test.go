//go:build linux

package debug

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/flight"
)

// told is a dumper's report: the file that it wrote, or why it could not.
type told struct {
	file string
	err  error
}

// TestDumpOnSignal: a signal writes the records to a file, and the oldest file goes.
func TestDumpOnSignal(t *testing.T) {
	said := make(chan told, 1)
	dir := t.TempDir()
	w := newRig(t, Config{Record: 1000, Dumps: Dumps{Dir: dir, Signals: []os.Signal{syscall.SIGHUP},
		Keep: 2, Told: func(file string, err error) { said <- told{file, err} }}})
	w.socket.begun.Wait()
	for range 3 {
		w.call(t, 5)
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		got := <-said
		if got.err != nil {
			t.Fatal(got.err)
		}
		f, err := os.Open(got.file)
		if err != nil {
			t.Fatal(err)
		}
		dumps, err := flight.Read(f)
		_ = f.Close()
		if err != nil || len(dumps) != 2 || len(dumps[0].Calls()) != 5 {
			t.Fatalf("%d dumps, %v", len(dumps), err)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) != 2 {
		t.Errorf("%q", files)
	}
}

// TestDumpOnError: calls that failed make one dump, and the next one only after a while.
func TestDumpOnError(t *testing.T) {
	said := make(chan told, 9)
	w := newRig(t, Config{Record: 1000, Dumps: Dumps{Dir: t.TempDir(), Every: 10 * time.Second,
		Codes: []erpc.Code{erpc.CodeInternal}, Told: func(file string, err error) {
			said <- told{file, err}
		}}})
	w.socket.begun.Wait()
	w.socket.dumper.end() // this test looks
	d := w.socket.dumper
	w.socket.dumper = nil
	fail := func() {
		if _, err := w.client.Call(t.Context(), typeFail, nil); err == nil {
			t.Fatal("it did not fail")
		}
	}
	now := time.Unix(1000, 0)
	for i, step := range []struct {
		after time.Duration
		fails bool
		want  int // dumps
	}{
		{0, false, 0}, {time.Second, true, 1}, {time.Second, false, 0}, {time.Second, true, 0},
		{7 * time.Second, false, 0}, {2 * time.Second, false, 1}, {time.Minute, false, 0},
	} {
		now = now.Add(step.after)
		if w.call(t, 1); step.fails {
			fail()
		}
		d.check(now)
		if len(said) != step.want {
			t.Errorf("step %d: %d dumps, want %d", i, len(said), step.want)
		}
		for len(said) > 0 {
			if s := <-said; s.err != nil {
				t.Error(s.err)
			}
		}
	}
}

// TestDumpsInVain: dumps of loops that do not record are a mistake.
func TestDumpsInVain(t *testing.T) {
	_, err := Listen(Config{Path: filepath.Join(t.TempDir(), "s"),
		Dumps: Dumps{Signals: []os.Signal{syscall.SIGHUP}}})
	if err == nil {
		t.Error("no error")
	}
}
