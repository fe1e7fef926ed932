package outfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is how many links there may be on the way to a file, as in the kernel.
const maxLinks = 40

// walk is the way to a file. Each of its steps is from an open folder.
type walk struct {
	name  string   // as it was asked for
	flag  int      // to open a file that is there
	make  bool     // it is made if it is not
	perm  uint32   // with these rights
	dir   *os.File // where the walk is; opened as a path alone
	at    string   // its name
	left  []string // names that come
	links int
}

func open(name string, flag int, perm fs.FileMode) (_ *os.File, err error) {
	if name == "" || name[len(name)-1] == '/' {
		return os.OpenFile(name, flag, perm) // it fails; the error is the system's
	}
	w := &walk{name: name, flag: flag&^os.O_CREATE | unix.O_CLOEXEC, make: flag&os.O_CREATE != 0,
		perm: uint32(perm.Perm())}
	defer func() {
		if w.dir != nil {
			err = errors.Join(err, w.dir.Close())
		}
	}()
	if err := w.enter(name); err != nil {
		return nil, w.wrap(err)
	}
	for {
		f, err := w.step()
		if err != nil {
			return nil, w.wrap(err)
		}
		if f != nil {
			return f, nil
		}
	}
}

// wrap gives an error of the system the form that those of package os have.
func (w *walk) wrap(err error) error {
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		return &fs.PathError{Op: "open", Path: w.name, Err: errno}
	}
	return err
}

// enter puts the names of a path before those that are left. An absolute one begins at the root.
func (w *walk) enter(path string) error {
	names := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	w.left = append(names, w.left...)
	switch {
	case path[0] == '/':
		return w.move(unix.AT_FDCWD, "/", "/")
	case w.dir == nil:
		return w.move(unix.AT_FDCWD, ".", "")
	}
	return nil
}

// move opens the folder from which the walk goes on.
func (w *walk) move(from int, name, at string) error {
	fd, err := openat(from, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return w.stand(fd, at)
}

// stand goes on from a folder that is open.
func (w *walk) stand(fd int, at string) (err error) {
	if w.dir != nil {
		err = w.dir.Close()
	}
	w.dir, w.at = os.NewFile(uintptr(fd), at), at
	return err
}

// step takes the next name: it enters a folder, follows a link, or opens the file.
func (w *walk) step() (*os.File, error) {
	if len(w.left) == 0 { // a link leads to the root
		return nil, unix.EISDIR
	}
	name := w.left[0]
	from, path, last := int(w.dir.Fd()), filepath.Join(w.at, name), len(w.left) == 1
	if !last {
		err := w.move(from, name, path)
		if err == nil {
			w.left = w.left[1:]
		}
		if err != unix.ENOTDIR && err != unix.ELOOP {
			return nil, err
		}
	}
	fd, err := openat(from, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT && last && w.make {
		fd, err = openat(from, name, w.flag|unix.O_CREAT|unix.O_EXCL, w.perm)
		if err == unix.EEXIST {
			return nil, nil // somebody was faster
		}
		return file(fd, w.name, err)
	}
	if err != nil {
		return nil, err
	}
	there := os.NewFile(uintptr(fd), path)
	defer func() { _ = there.Close() }()
	info, err := w.check(there, path)
	switch {
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		return w.follow(there, name, path, last)
	case !last:
		return nil, unix.ENOTDIR
	}
	fd, err = openat(from, name, w.flag|unix.O_NOFOLLOW, 0)
	if err == unix.ENOENT || err == unix.ELOOP {
		return nil, nil // it was swapped
	}
	f, err := file(fd, w.name, err)
	if err != nil {
		return nil, err
	}
	if _, err := w.check(f, path); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// check looks at what was opened from the folder where the walk is.
func (w *walk) check(f *os.File, path string) (fs.FileInfo, error) {
	dir, err := w.dir.Stat()
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return info, check(path, dir, info, fs.FileMode(w.perm))
}

// follow follows a link that is open. Links of /proc lead where no name does, and the kernel
// follows them.
func (w *walk) follow(link *os.File, name, path string, last bool) (*os.File, error) {
	if w.links++; w.links > maxLinks {
		return nil, unix.ELOOP
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(link.Fd()), &st); err != nil {
		return nil, err
	}
	from := int(w.dir.Fd())
	if st.Type == unix.PROC_SUPER_MAGIC {
		if last {
			fd, err := openat(from, name, w.flag, 0)
			return file(fd, w.name, err)
		}
		fd, err := openat(from, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		w.left = w.left[1:]
		return nil, w.stand(fd, path)
	}
	to := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(link.Fd()), "", to)
	if err != nil || n == 0 {
		return nil, errors.Join(err, unix.ENOENT)
	}
	w.left = w.left[1:]
	return nil, w.enter(string(to[:n]))
}

// file makes a file of what was opened. Writes to a pipe end when it is closed, as those of files
// that package os has opened.
func file(fd int, name string, err error) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO {
		_ = unix.SetNonblock(fd, true)
	}
	return os.NewFile(uintptr(fd), name), nil
}

func openat(from int, name string, flag int, perm uint32) (int, error) {
	for {
		fd, err := unix.Openat(from, name, flag, perm)
		if err != unix.EINTR {
			return fd, err
		}
	}
}
