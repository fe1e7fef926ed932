package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/userspace-rpc/erpc/internal/ownfile"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kv/memcached"
	"github.com/userspace-rpc/erpc/kv/mica"
)

// memcachedFlags are about memcached's clients. Those that were not given are nil.
type memcachedFlags struct {
	Memcached   string         `help:"${memcached_help}" placeholder:"ADDR"`
	MaxConns    *int           `help:"Their connections at most; default 1024." placeholder:"N"`
	MaxItemSize *int           `help:"Their largest value in bytes; default 1 MiB." placeholder:"N"`
	IdleTimeout *time.Duration `help:"End their silent connections; default never." placeholder:"TIME"`
	AuthFile    *string        `help:"Their users, lines of USER:PASSWORD." placeholder:"FILE"`
}

func (f *memcachedFlags) check() error {
	const alone = "%s: is for memcached's clients: give --memcached too"
	switch none := f.Memcached == ""; {
	case none && f.AuthFile != nil:
		return cli.Usagef(alone, "--auth-file")
	case none && f.MaxConns != nil:
		return cli.Usagef(alone, "--max-conns")
	case none && f.MaxItemSize != nil:
		return cli.Usagef(alone, "--max-item-size")
	case none && f.IdleTimeout != nil:
		return cli.Usagef(alone, "--idle-timeout")
	case f.AuthFile != nil && *f.AuthFile == "":
		return cli.Usagef("--auth-file: has no name of a file")
	case f.MaxConns != nil && *f.MaxConns < 1:
		return cli.Usagef("--max-conns %d: want 1 at least", *f.MaxConns)
	case f.MaxItemSize != nil && (*f.MaxItemSize < 1 || *f.MaxItemSize > mica.MaxValue):
		return cli.Usagef("--max-item-size %d: want 1 to %d", *f.MaxItemSize, mica.MaxValue)
	case f.IdleTimeout != nil && *f.IdleTimeout < 0:
		return cli.Usagef("--idle-timeout %v: want a time, or 0 for none", *f.IdleTimeout)
	}
	return nil
}

// apply sets what the flags say.
func (f *memcachedFlags) apply(cfg *memcached.Config) (err error) {
	if f.MaxConns != nil {
		cfg.MaxConns = *f.MaxConns
	}
	if f.MaxItemSize != nil {
		cfg.MaxItemSize = *f.MaxItemSize
	}
	if f.IdleTimeout != nil {
		cfg.IdleTimeout = *f.IdleTimeout
	}
	if f.AuthFile != nil {
		cfg.Auth, err = readUsers(*f.AuthFile)
	}
	return err
}

// readUsers returns a check against the users of a file, which has one at least. Who logs in says
// his name up to the first space: none is in a name.
func readUsers(path string) (func(user, password string) bool, error) {
	text, err := ownfile.Read(path, ownfile.Secret, 1<<20)
	if err != nil {
		return nil, fmt.Errorf("--auth-file: %w", err)
	}
	users := map[string][sha256.Size]byte{}
	lines, n := bufio.NewScanner(bytes.NewReader(text)), 1
	for ; lines.Scan(); n++ {
		user, password, ok := strings.Cut(lines.Text(), ":")
		_, twice := users[user]
		problem := ""
		switch {
		case !ok || user == "":
			problem = "is not USER:PASSWORD"
		case strings.Contains(user, " "):
			problem = "has a user with a space"
		case twice:
			problem = "has a user of a line before"
		}
		if problem != "" {
			return nil, fmt.Errorf("--auth-file %s: line %d %s", path, n, problem)
		}
		users[user] = sha256.Sum256([]byte(password))
	}
	switch err := lines.Err(); {
	case err != nil:
		return nil, fmt.Errorf("--auth-file %s: line %d: %w", path, n, err)
	case len(users) == 0:
		return nil, fmt.Errorf("--auth-file %s: has no user", path)
	}
	return func(user, password string) bool {
		want, ok := users[user]
		got := sha256.Sum256([]byte(password))
		return subtle.ConstantTimeCompare(got[:], want[:]) == 1 && ok
	}, nil
}

// listen opens the port, or a socket if the address is a path: for processes of the same user. A
// socket that a server has left behind is replaced.
func (f *memcachedFlags) listen() (net.Listener, error) {
	if !strings.Contains(f.Memcached, "/") {
		return net.Listen("tcp", f.Memcached)
	}
	if err := removeDead(f.Memcached); err != nil {
		return nil, fmt.Errorf("--memcached %s: %w", f.Memcached, err)
	}
	ln, err := net.Listen("unix", f.Memcached)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(f.Memcached, 0o700); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return ln, nil
}

// removeDead removes a socket that nobody listens at: one that refuses. A server that has too much
// to do, or whose socket others may not use, fails otherwise, and keeps it.
func removeDead(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSocket == 0:
		return errors.New("is there and is no socket")
	}
	c, err := net.Dial("unix", path)
	switch {
	case err == nil:
		return errors.Join(errors.New("a server has it"), c.Close())
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	}
	return fmt.Errorf("a server may have it: %w", err)
}

// serve begins to serve memcached's clients, if that is asked for, and calls stop when their port
// has ended. The returned function ends it, and has its error.
func (f *memcachedFlags) serve(
	cfg memcached.Config, stop func(), r *ready,
) (end func() error, err error) {
	if f.Memcached == "" {
		return func() error { return nil }, nil
	}
	if err := f.apply(&cfg); err != nil {
		return nil, err
	}
	ln, err := f.listen()
	if err != nil {
		return nil, err
	}
	r.Memcached = ln.Addr().String()
	s := memcached.New(cfg)
	ended := make(chan error, 1)
	go func() {
		ended <- s.Serve(ln)
		stop()
	}()
	return func() error {
		err := s.Close()
		if e := <-ended; !errors.Is(e, memcached.ErrClosed) {
			err = errors.Join(err, e)
		}
		return err
	}, nil
}
