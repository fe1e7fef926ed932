package shm

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/userspace-rpc/erpc/transport"
	"golang.org/x/sys/unix"
)

// Files in the directory where endpoints meet.
const (
	namePrefix = "n-"   // n-NAME is a symbolic link to the socket of the endpoint of that name
	lockFile   = "lock" // held while a name is taken
	// maxSweep bounds how many other sockets a new endpoint looks at for dead ones.
	maxSweep = 32
)

// directory is where endpoints meet.
type directory struct {
	path string
	fd   int
}

// openDirectory opens the directory of cfg, makes it if need be, and checks that
// nobody but its owner can write there.
func openDirectory(cfg Config) (*directory, error) {
	path := cfg.Dir
	if path == "" {
		if run := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(run) {
			path = filepath.Join(run, "erpc")
		} else {
			path = filepath.Join(os.TempDir(), fmt.Sprintf("erpc-%d", os.Getuid()))
		}
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("shm: %w", err)
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("shm: %w", err)
	}
	// O_NOFOLLOW: in a directory like /tmp somebody else may have put a link here.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("shm: %w", &os.PathError{Op: "open", Path: path, Err: err})
	}
	d := &directory{path: path, fd: fd}
	if err := d.check(cfg.AllowOtherUsers); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *directory) check(others bool) error {
	var st unix.Stat_t
	if err := unix.Fstat(d.fd, &st); err != nil {
		return fmt.Errorf("shm: %w", &os.PathError{Op: "stat", Path: d.path, Err: err})
	}
	uid := uint32(os.Getuid())
	mode := st.Mode & 0o777
	switch {
	case st.Uid != uid && !(others && st.Uid == 0):
		return fmt.Errorf("%w: %s belongs to user %d, must belong to %d: "+
			"name another directory", ErrDirectory, d.path, st.Uid, uid)
	case !others && mode&0o077 != 0:
		return fmt.Errorf("%w: %s has mode %#o, must be 0700: chmod it", ErrDirectory, d.path, mode)
	case mode&0o022 != 0 && st.Mode&unix.S_ISVTX == 0:
		return fmt.Errorf("%w: %s can be written by others: take that right away, "+
			"or set its sticky bit", ErrDirectory, d.path)
	}
	return nil
}

func (d *directory) close() { unix.Close(d.fd) }

// socket returns the path of a file for bind and connect, which take 107 bytes.
func (d *directory) socket(file string) *net.UnixAddr {
	path := filepath.Join(d.path, file)
	if len(path) > 107 {
		path = fmt.Sprintf("/proc/self/fd/%d/%s", d.fd, file)
	}
	return &net.UnixAddr{Name: path, Net: "unixpacket"}
}

// claim opens the socket of addr and takes the name, if it is not "".
func (d *directory) claim(addr transport.Addr, name string,
	mode uint32) (*net.UnixListener, error) {
	unlock, err := d.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	d.sweep()
	if name != "" {
		if owner, err := d.lookup(name); err == nil && d.alive(fileOf(owner)) {
			return nil, fmt.Errorf("%w: %s: end its endpoint, or take another name",
				ErrNameInUse, name)
		}
		_ = unix.Unlinkat(d.fd, namePrefix+name, 0)
	}
	file := fileOf(addr)
	l, err := net.ListenUnix("unixpacket", d.socket(file))
	if err != nil {
		return nil, fmt.Errorf("shm: %w", err)
	}
	l.SetUnlinkOnClose(false) // release does it, in the right order
	err = unix.Fchmodat(d.fd, file, mode, 0)
	if err == nil && name != "" {
		err = unix.Symlinkat(file, d.fd, namePrefix+name)
	}
	if err != nil {
		_ = unix.Unlinkat(d.fd, file, 0)
		l.Close()
		return nil, fmt.Errorf("shm: %w",
			&os.PathError{Op: "claim", Path: filepath.Join(d.path, file), Err: err})
	}
	return l, nil
}

// release removes the files of an endpoint. Its socket must still be open: as long as
// it is, nobody else takes the name.
func (d *directory) release(addr transport.Addr, name string) {
	if name != "" {
		if owner, err := d.lookup(name); err == nil && owner == addr {
			_ = unix.Unlinkat(d.fd, namePrefix+name, 0)
		}
	}
	_ = unix.Unlinkat(d.fd, fileOf(addr), 0)
}

// lock serializes those who take names. The kernel ends it with its holder.
func (d *directory) lock() (unlock func(), err error) {
	fd, err := unix.Openat(d.fd, lockFile, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW,
		0o600)
	if err == nil {
		for err = unix.EINTR; err == unix.EINTR; {
			err = unix.Flock(fd, unix.LOCK_EX)
		}
		if err == nil {
			return func() { unix.Close(fd) }, nil
		}
		unix.Close(fd)
	}
	return nil, fmt.Errorf("shm: %w",
		&os.PathError{Op: "lock", Path: filepath.Join(d.path, lockFile), Err: err})
}

// missing is the error of a name that nobody has.
func (d *directory) missing(name string) error {
	return fmt.Errorf("%w: %s in %s: is it running, with the same directory?",
		ErrNoEndpoint, name, d.path)
}

// lookup returns the address that a name stands for, dead or alive.
func (d *directory) lookup(name string) (transport.Addr, error) {
	var buf [64]byte
	n, err := unix.Readlinkat(d.fd, namePrefix+name, buf[:])
	if err != nil {
		return transport.Addr{}, d.missing(name)
	}
	if a, ok := addrOfFile(string(buf[:n])); ok {
		return a, nil
	}
	return transport.Addr{}, d.missing(name)
}

// alive reports whether somebody listens on a socket. The kernel refuses at once if
// its process has ended.
func (d *directory) alive(file string) bool {
	c, err := net.DialUnix("unixpacket", nil, d.socket(file))
	if err == nil {
		c.Close()
		return true
	}
	return !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.ENOENT)
}

// sweep removes sockets of dead processes, but looks only at some files: their number
// then shrinks faster than it grows.
func (d *directory) sweep() {
	f, err := os.Open(fmt.Sprintf("/proc/self/fd/%d/", d.fd)) // its own position in the directory
	if err != nil {
		return
	}
	defer f.Close()
	names, _ := f.Readdirnames(maxSweep)
	for _, name := range names {
		if strings.HasPrefix(name, idPrefix) && !d.alive(name) {
			_ = unix.Unlinkat(d.fd, name, 0)
		}
	}
}
