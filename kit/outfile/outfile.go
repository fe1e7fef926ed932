package outfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"

	"github.com/userspace-rpc/erpc/internal/ownfile"
)

// ErrOthers is matched by the errors of a file that other users could have put there, change or
// read.
var ErrOthers = ownfile.ErrOthers

// OthersError is a file or a link that another user may have put there. It matches ErrOthers.
type OthersError struct {
	File  string // the file or the link: what was asked for, or something on the way to it
	Owner int    // the user who owns it
	What  string // what is wrong with it, as a sentence without its subject
}

func (e *OthersError) Error() string {
	return fmt.Sprintf("%s %s, and others may write to its folder: remove it, or name another file",
		e.File, e.What)
}

// Is makes errors.Is find ErrOthers.
func (e *OthersError) Is(target error) bool { return target == ErrOthers }

// Create opens a file to write it, and empties it. If there is none it makes one with these rights,
// less the umask. What is no regular file, as a pipe, is opened as it is. The caller closes it.
// Errors: an *OthersError, and those of the system.
func Create(name string, perm fs.FileMode) (*os.File, error) {
	return Open(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
}

// Open opens a file to write it, as os.OpenFile does with these flags. It empties the file when it
// has looked at it. The caller closes it. Errors: those of Create.
func Open(name string, flag int, perm fs.FileMode) (*os.File, error) {
	f, err := open(name, flag&^os.O_TRUNC, perm)
	if err != nil {
		return nil, err
	}
	if flag&os.O_TRUNC == 0 {
		return f, nil
	}
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() {
		err = f.Truncate(0)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Write makes b all that a file has, see Create. Errors: those of Create.
func Write(name string, b []byte, perm fs.FileMode) error {
	f, err := Create(name, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}

// exposed reports whether others may put something into a folder.
func exposed(dir fs.FileInfo) bool {
	owner, ok := ownfile.Owner(dir)
	return ok && (!trusted(owner) || dir.Mode().Perm()&0o022 != 0)
}

// trusted reports whether a user is this one or root.
func trusted(uid int) bool { return uid == os.Geteuid() || uid == 0 }

// check says whether what is in a folder may be followed or written. Perm says who is to read it.
func check(path string, dir, info fs.FileInfo, perm fs.FileMode) error {
	owner, ok := ownfile.Owner(info)
	if !ok || !exposed(dir) {
		return nil
	}
	link := info.Mode()&fs.ModeSymlink != 0
	folders, _ := ownfile.Owner(dir)
	switch {
	case trusted(owner), !link && perm&0o044 != 0 && owner == folders:
	case link:
		return &OthersError{path, owner, "is a link that belongs to " + userText(owner)}
	default:
		return &OthersError{path, owner, fmt.Sprintf("belongs to %s, not to %s", userText(owner),
			userText(os.Geteuid()))}
	}
	if links := ownfile.Links(info); !link && info.Mode().IsRegular() && links > 1 {
		return &OthersError{path, owner, fmt.Sprintf("has %d names", links)}
	}
	return nil
}

// userText names a user.
func userText(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return fmt.Sprintf("user %d (%s)", uid, u.Username)
	}
	return fmt.Sprintf("user %d", uid)
}
