package rc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/userspace-rpc/erpc/internal/verbs"
	"golang.org/x/sys/unix"
)

// deviceWatch notices that an adapter is taken away. Some drivers say so by an event of the device.
// Others, soft-RoCE among them, let their node go from /dev and then wait until nobody uses the
// device any more; the operations of those who do never end.
type deviceWatch struct {
	files []*os.File // a duplicate of the events' descriptor, and inotify of the node's folder
	wait  sync.WaitGroup
}

// start calls gone, from another goroutine, when the device is taken away. An event source that
// cannot be watched is left out: the link works without.
func (w *deviceWatch) start(dev *verbs.Device, node string, gone func(error)) error {
	events, err := eventsFile(dev)
	if err != nil {
		return err
	}
	w.follow(events, func(int) (done bool) {
		for {
			e, err := dev.Event()
			switch {
			case errors.Is(err, syscall.EINTR):
			case errors.Is(err, syscall.EAGAIN):
				return false
			case err != nil:
				gone(fmt.Errorf("%w (%w)", ErrDeviceGone, err))
				return true
			case e.Code == verbs.EventDeviceFatal:
				gone(fmt.Errorf("%w (%s)", ErrDeviceGone, e.Name))
				return true
			}
		}
	})
	if node == "" {
		return nil
	}
	folder, err := folderFile(filepath.Dir(node))
	if err != nil {
		return nil // as in a container without /dev
	}
	w.follow(folder, func(fd int) (done bool) {
		var buf [4096]byte
		for n := 1; n > 0; {
			n, _ = unix.Read(fd, buf[:]) // what has happened in the folder does not matter
		}
		if _, err := os.Stat(node); !errors.Is(err, os.ErrNotExist) {
			return false
		}
		gone(fmt.Errorf("%w (%s)", ErrDeviceGone, node))
		return true
	})
	return nil
}

// follow calls look whenever a file is readable, until it says that it is done or the file is
// closed. It owns the file.
func (w *deviceWatch) follow(f *os.File, look func(fd int) (done bool)) {
	w.files = append(w.files, f)
	w.wait.Go(func() {
		if raw, err := f.SyscallConn(); err == nil {
			_ = raw.Read(func(fd uintptr) bool { return look(int(fd)) }) // ends when the file is closed
		}
	})
}

// eventsFile returns a duplicate of a device's descriptor of events, which no longer blocks.
func eventsFile(dev *verbs.Device) (*os.File, error) {
	if err := unix.SetNonblock(dev.AsyncFD(), true); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	fd, err := unix.FcntlInt(uintptr(dev.AsyncFD()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), "events"), nil
}

// folderFile returns a file that is readable when something in a folder has been deleted.
func folderFile(folder string) (*os.File, error) {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	if _, err := unix.InotifyAddWatch(fd, folder, unix.IN_DELETE|unix.IN_DELETE_SELF); err != nil {
		return nil, errors.Join(os.NewSyscallError("inotify_add_watch", err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), folder), nil
}

// stop returns when gone will not be called any more.
func (w *deviceWatch) stop() {
	for _, f := range w.files {
		_ = f.Close() // nothing was written
	}
	w.wait.Wait()
	w.files = nil
}
