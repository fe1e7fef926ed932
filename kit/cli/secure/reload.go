package secure

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/userspace-rpc/erpc/kit/cli"
)

// every is how often the files are looked at. What a look finds new is taken by the next one, if it
// is the same then: nobody is in the middle of writing it.
const every = time.Second

// reloader takes keys from files that have changed. What cannot be taken changes nothing, and is
// tried again.
type reloader struct {
	flags *Flags
	log   *slog.Logger
	taken contents // the keys are of these
	found contents // the last look's; empty if a file could not be read
	said  string   // why they were not taken, "" if they were
}

func newReloader(f *Flags, c contents, log io.Writer) *reloader {
	return &reloader{flags: f, log: slog.New(slog.NewTextHandler(log, nil)), taken: c, found: c}
}

// start looks at the files until the context ends.
func (r *reloader) start(ctx context.Context) {
	terminal := !signal.Ignored(syscall.SIGHUP) && hasTerminal()
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	go func() {
		defer signal.Stop(hup)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-hup:
				if terminal && !hasTerminal() {
					hangUp()
				}
				r.look(true)
			case <-tick.C:
				r.look(false)
			}
		}
	}()
}

// look reads the files, and takes keys that are new. It is sure that they are if somebody says so.
func (r *reloader) look(sure bool) {
	c, err := r.flags.read()
	before := r.found
	r.found = c
	switch {
	case err == nil && c == r.taken:
		r.said = ""
		if sure {
			r.log.Info("the files of keys have not changed")
		}
		return
	case c != before && !sure:
		return
	case err == nil:
		err = r.take(c)
	}
	if err == nil {
		r.said = ""
		r.log.Info("new keys are in use", "files", r.flags.Args())
		return
	}
	if text := cli.OneLine(err); sure || text != r.said {
		r.said = text
		r.log.Warn("the keys stay as they are", "reason", text)
	}
}

// take lets all handshakes that begin from now on have new keys.
func (r *reloader) take(c contents) error {
	t, psk, err := r.flags.parse(&c)
	if err != nil {
		return err
	}
	k := r.flags.keys
	if err = k.ring.Set(t, psk); err != nil {
		return err
	}
	r.taken = c
	k.names.Store(namesIn(&c))
	if t != nil {
		k.later.Store(t)
	}
	return nil
}

// hasTerminal reports whether the process has a terminal, which may have gone since it began.
func hasTerminal() bool {
	f, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	_ = f.Close()
	return true
}

// hangUp ends the process as SIGHUP does when nobody waits for it: its terminal has gone.
func hangUp() {
	signal.Reset(syscall.SIGHUP)
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Signal(syscall.SIGHUP)
	}
}
