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
	"time"

	"github.com/userspace-rpc/erpc/internal/ownfile"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kv/memcached"
	"github.com/userspace-rpc/erpc/kv/mica"
)

// memcachedFlags are about memcached's clients.
type memcachedFlags struct {
	Memcached   string        `help:"${memcached_help}" placeholder:"ADDR"`
	MaxConns    int           `default:"1024" help:"Their connections at most; default ${default}."`
	MaxItemSize int           `default:"1048576" help:"Largest value they set, in bytes; ${default}."`
	IdleTimeout time.Duration `help:"End their silent connections; default never." placeholder:"TIME"`
	AuthFile    string        `help:"Their users, lines of USER:PASSWORD." placeholder:"FILE"`
}

func (f *memcachedFlags) check() error {
	switch {
	case f.MaxConns < 1:
		return cli.Usagef("--max-conns %d: want 1 at least", f.MaxConns)
	case f.MaxItemSize < 1 || f.MaxItemSize > mica.MaxValue:
		return cli.Usagef("--max-item-size %d: want 1 to %d", f.MaxItemSize, mica.MaxValue)
	case f.IdleTimeout < 0:
		return cli.Usagef("--idle-timeout %v: want a time, or 0 for none", f.IdleTimeout)
	}
	return nil
}

// apply sets what the flags say.
func (f *memcachedFlags) apply(cfg *memcached.Config) (err error) {
	cfg.MaxConns, cfg.MaxItemSize, cfg.IdleTimeout = f.MaxConns, f.MaxItemSize, f.IdleTimeout
	if f.AuthFile != "" {
		cfg.Auth, err = readUsers(f.AuthFile)
	}
	return err
}

// readUsers returns a check against the users of a file.
func readUsers(path string) (func(user, password string) bool, error) {
	text, err := ownfile.Read(path, ownfile.Secret, 1<<20)
	if err != nil {
		return nil, fmt.Errorf("--auth-file: %w", err)
	}
	users := map[string][sha256.Size]byte{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		user, password, ok := strings.Cut(lines.Text(), ":")
		if !ok || user == "" {
			return nil, fmt.Errorf("--auth-file %s: line %d is not USER:PASSWORD", path, len(users)+1)
		}
		users[user] = sha256.Sum256([]byte(password))
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
	if info, err := os.Lstat(f.Memcached); err == nil && info.Mode()&fs.ModeSocket != 0 {
		if c, err := net.Dial("unix", f.Memcached); err == nil {
			return nil, errors.Join(fmt.Errorf("--memcached %s: a server has it", f.Memcached), c.Close())
		}
		if err := os.Remove(f.Memcached); err != nil {
			return nil, err
		}
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
