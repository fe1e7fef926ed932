package shm

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/userspace-rpc/erpc/internal/ownfile"
	"github.com/userspace-rpc/erpc/transport"
	"golang.org/x/sys/unix"
)

// Files in the directory where endpoints meet.
const (
	namePrefix = "n-"   // n-NAME is a symbolic link to the socket of the endpoint of that name
	lockFile   = "lock" // held while a name is taken
	userPrefix = "u-"   // u-UID is the folder of a user, with Config.AllowOtherUsers
	// maxSweep bounds how many other sockets a new endpoint looks at for dead ones.
	maxSweep = 32
)

// directory has the files of endpoints: of all, or with Config.AllowOtherUsers of this user's.
type directory struct {
	path string
	fd   int
	all  *directory // where each user has a folder; nil: there is one for all
}

// openDirectory opens the directory of cfg, makes it if need be, and checks that
// nobody but its owner can write there.
func openDirectory(cfg Config) (d *directory, err error) {
	path := cfg.Dir
	if path == "" {
		if path, err = ownfile.Runtime("erpc", true); err != nil {
			return nil, fmt.Errorf("shm: %w", err)
		}
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, fmt.Errorf("shm: %w", err)
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("shm: %w", err)
	}
	if d, err = openAt(unix.AT_FDCWD, path, path); err != nil {
		return nil, err
	}
	if err = d.check(cfg.AllowOtherUsers); err == nil && cfg.AllowOtherUsers {
		d, err = d.own()
	}
	if err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// openAt opens a directory whose name is relative to at.
func openAt(at int, name, path string) (*directory, error) {
	// O_NOFOLLOW: in a directory like /tmp somebody else may have put a link here. O_PATH: one may
	// be let in, but not to see all files.
	fd, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("shm: %w", &os.PathError{Op: "open", Path: path, Err: err})
	}
	return &directory{path: path, fd: fd}, nil
}

func (d *directory) stat() (st unix.Stat_t, err error) {
	if err := unix.Fstat(d.fd, &st); err != nil {
		return st, fmt.Errorf("shm: %w", &os.PathError{Op: "stat", Path: d.path, Err: err})
	}
	return st, nil
}

func (d *directory) check(others bool) error {
	st, err := d.stat()
	if err != nil {
		return err
	}
	uid := uint32(os.Geteuid())
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

// own returns this user's folder in d, which it makes if need be. It owns d then; if it returns an
// error it returns d.
func (d *directory) own() (*directory, error) {
	uid := uint32(os.Geteuid())
	made := unix.Mkdirat(d.fd, folderOf(uid), 0o711)
	if made != nil && made != unix.EEXIST {
		return d, fmt.Errorf("shm: %w: root can make it, for user %d", &os.PathError{
			Op: "mkdir", Path: filepath.Join(d.path, folderOf(uid)), Err: made}, uid)
	}
	mine, err := d.folder(uid)
	if err == nil && made == nil {
		// The umask may keep others from coming in.
		if err = unix.Fchmodat(mine.fd, ".", 0o711, 0); err != nil {
			mine.close()
			err = fmt.Errorf("shm: %w", &os.PathError{Op: "chmod", Path: mine.path, Err: err})
		}
	}
	if err != nil {
		return d, err
	}
	mine.all = d
	return mine, nil
}

// folderOf returns the name of a user's folder.
func folderOf(uid uint32) string { return userPrefix + strconv.FormatUint(uint64(uid), 10) }

// folder opens a user's folder in d, where nobody else can have put anything. The caller closes it.
func (d *directory) folder(uid uint32) (*directory, error) {
	f, err := openAt(d.fd, folderOf(uid), filepath.Join(d.path, folderOf(uid)))
	if err != nil {
		return nil, err
	}
	st, err := f.stat()
	switch {
	case err != nil:
	case st.Uid != uid:
		err = fmt.Errorf("%w: %s belongs to user %d, must belong to %d: root can mend it",
			ErrDirectory, f.path, st.Uid, uid)
	case st.Mode&0o022 != 0:
		err = fmt.Errorf("%w: %s can be written by others than its user", ErrDirectory, f.path)
	}
	if err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// pathOf returns the socket of an address.
func (d *directory) pathOf(a transport.Addr) *net.UnixAddr {
	if d.all == nil || userOf(a) == uint32(os.Geteuid()) {
		return d.socket(fileOf(a))
	}
	return d.all.socket(filepath.Join(folderOf(userOf(a)), fileOf(a)))
}

func (d *directory) close() {
	unix.Close(d.fd)
	if d.all != nil {
		d.all.close()
	}
}

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

// lookup returns the address that a name of this user stands for, dead or alive.
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

// lookupOf is lookup for a name of some user.
func (d *directory) lookupOf(t *target) (transport.Addr, error) {
	if !t.said || t.user == uint32(os.Geteuid()) {
		return d.lookup(t.name)
	}
	if d.all == nil {
		return transport.Addr{}, fmt.Errorf("%w: %s of user %d: Config.AllowOtherUsers is off",
			ErrNoEndpoint, t.name, t.user)
	}
	f, err := d.all.folder(t.user)
	if errors.Is(err, unix.ENOENT) {
		return transport.Addr{}, d.all.missing(t.name)
	}
	if err != nil {
		return transport.Addr{}, err
	}
	defer f.close()
	a, err := f.lookup(t.name)
	if err == nil && userOf(a) != t.user {
		err = f.missing(t.name) // it leads to somebody else
	}
	return a, err
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
