package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/userspace-rpc/erpc/kit/cli/secure/securetest"
)

// TestHangUp: a server with keys ends with its terminal, as one without does; SIGHUP alone does not
// end it.
func TestHangUp(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	securetest.HearHangUp()
	for _, keys := range [][]string{nil, {securetest.PSK(t, "5")}} {
		master, slave := terminal(t)
		args := strings.Fields("serve --json --addr=127.0.0.1:0 --memory=2 --no-hugepages")
		cmd := exec.CommandContext(ctx, os.Args[0], append(args, keys...)...)
		cmd.Env, cmd.Stdin = append(os.Environ(), childEnv...), slave
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // by its standard input
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		log, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if err := json.NewDecoder(out).Decode(new(ready)); err != nil {
			t.Fatal(err)
		}
		if keys != nil {
			if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			said := bufio.NewScanner(log)
			for said.Scan() && !strings.Contains(said.Text(), "have not changed") {
			}
			if said.Text() == "" {
				t.Fatal("the server has ended")
			}
		}
		if err := errors.Join(slave.Close(), master.Close()); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, log)
		var ended *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &ended) || ended.Sys().(syscall.WaitStatus).Signal() !=
			syscall.SIGHUP {
			t.Errorf("%q: %v, want the end by SIGHUP", keys, err)
		}
	}
}

// terminal makes one.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("no terminals: ", err)
		}
		t.Skip("no terminals: ", err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}
