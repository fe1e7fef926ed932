package filelock

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// role tells a process of a test what it is, and names the file.
const role = "FILELOCK_TEST_"

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(role+"CHILD") != "": // lives until its input ends
		fmt.Println("child", os.Getpid())
		_, _ = io.Copy(io.Discard, os.Stdin)
	case os.Getenv(role+"HOLDER") != "": // has the lock and a child, until it is killed
		l, err := Take(os.Getenv(role + "HOLDER"))
		if err != nil {
			panic(err)
		}
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), role+"CHILD=1")
		child.Stdin, child.Stdout = os.Stdin, os.Stdout
		if err := child.Run(); err != nil {
			panic(err)
		}
		runtime.KeepAlive(l)
	default:
		os.Exit(m.Run())
	}
}

// TestTake: one has the lock at a time, and the others are told who it is.
func TestTake(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	// What is there from before says nothing.
	if err := os.WriteFile(name, []byte("4711 a.host.that.had.it.before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		l, err := Take(name)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			_, err := Take(name)
			me := fmt.Sprintf("process %d on ", os.Getpid())
			if !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), me) ||
				!strings.Contains(err.Error(), name) {
				t.Errorf("the second: %v", err)
			}
		}
		if err := l.Release(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Take(filepath.Join(name, "x")); err == nil || errors.Is(err, ErrHeld) {
		t.Errorf("in no folder: %v", err)
	}
}

// TestUnknownHolder: a file that does not say who has it.
func TestUnknownHolder(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	for _, text := range []string{"", "12", "x y\n", "-5 a\n", strings.Repeat("9", 999)} {
		f, err := os.Create(name)
		if err == nil {
			err = File(f)
		}
		if err == nil {
			_, err = f.WriteString(text)
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = Take(name)
		var held *HeldError
		if !errors.As(err, &held) || held.Holder != "another process" {
			t.Errorf("%q: %v", text, err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestKilledHolder: a lock ends with its holder, although a child that this has started lives on.
func TestKilledHolder(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), role+"HOLDER="+name)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(pipe)
	if line, err := out.ReadString('\n'); !strings.HasPrefix(line, "child ") {
		t.Fatalf("%q, %v", line, err)
	}
	_, err = Take(name)
	if want := fmt.Sprintf("process %d on ", cmd.Process.Pid); !errors.Is(err, ErrHeld) ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.Process.Wait(); err != nil {
		t.Fatal(err)
	}
	l, err := Take(name) // the child still waits for its input
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(in.Close(), l.Release()); err != nil {
		t.Error(err)
	}
	if b, err := io.ReadAll(out); err != nil || len(b) > 0 { // until the child has ended
		t.Errorf("%q, %v", b, err)
	}
}
