package clitest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/kit/cli"
)

// childKey is set for children.
const childKey = "ERPC_TEST_CHILD"

// Main is the body of TestMain: it runs the tests, or the command in a child. childEnv has the
// variables that the command adds to the environment of its children.
func Main(m *testing.M, command func(), childEnv *[]string) {
	if os.Getenv(childKey) != "" {
		command()
		return
	}
	*childEnv = []string{childKey + "=1"}
	os.Exit(m.Run())
}

// Command runs a command line and returns the exit status.
type Command func(e *cli.Env, args []string) (status int)

// Try runs a command line without input.
func (c Command) Try(t testing.TB, args ...string) (status int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	status = c(&cli.Env{Ctx: t.Context(), In: strings.NewReader(""), Out: &o, Err: &e}, args)
	return status, o.String(), e.String()
}

// Serve runs a command line that serves until its context ends: until the test does, or until stop
// is called. It waits for the JSON object that the command prints first, which goes to ready. The
// command must end with cli.Done, and have said the text on its standard error.
func (c Command) Serve(t testing.TB, ready any, said string, args ...string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	var errOut bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- c(&cli.Env{Ctx: ctx, In: strings.NewReader(""), Out: w, Err: &errOut}, args)
		_ = w.Close() // the reader's end
	}()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if status := <-ended; status != cli.Done || !strings.Contains(errOut.String(), said) {
			t.Errorf("status %d: %s", status, errOut.String())
		}
	}
	if err := json.NewDecoder(r).Decode(ready); err != nil {
		cancel()
		status := <-ended
		t.Fatalf("status %d, %v; %s", status, err, errOut.String())
	}
	t.Cleanup(stop)
	return stop
}
