package shmem

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Seals of a file that others map: nobody can cut it short under a mapping, which
// would be a SIGBUS, nor change the seals.
const (
	sizeSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	// bellSeals: no writable mapping but those made before (Linux 5.1).
	bellSeals = sizeSeals | unix.F_SEAL_FUTURE_WRITE
	tmpfs     = 0x01021994 // statfs type of an ordinary memfd; one of huge pages differs
)

// ErrUnsafeFile means that a file from another process is not what it must be: its
// size or seals would let that process harm this one.
var ErrUnsafeFile = errors.New("shmem: file of another process is not safe to map")

// Create returns a new zero memory file of size bytes, mapped for writing and sealed
// in size. The caller owns both; the mapping outlives the file descriptor.
func Create(size int) (fd int, mem []byte, err error) { return create(size, sizeSeals) }

// CreateBell returns a memory file for a Bell: others can only map it for reading.
func CreateBell() (fd int, mem []byte, err error) { return create(BellSize, bellSeals) }

// CreateReadOnly is Create, but others can only map the file for reading.
func CreateReadOnly(size int) (fd int, mem []byte, err error) { return create(size, bellSeals) }

func create(size, seals int) (fd int, mem []byte, err error) {
	fd, err = unix.MemfdCreate("erpc", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, nil, os.NewSyscallError("memfd_create", err)
	}
	if err = unix.Ftruncate(fd, int64(size)); err != nil {
		err = os.NewSyscallError("ftruncate", err)
	} else if mem, err = mapFile(fd, size, unix.PROT_READ|unix.PROT_WRITE); err == nil {
		if _, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err == nil {
			return fd, mem, nil
		}
		err = os.NewSyscallError("fcntl F_ADD_SEALS", err)
		Unmap(mem)
	}
	unix.Close(fd)
	return -1, nil, err
}

// Open maps a file that Create made in another process, after checking that it cannot
// become a trap. The caller still owns fd, and owns the mapping. Errors match
// ErrUnsafeFile or are the system's.
func Open(fd, size int) ([]byte, error) {
	if err := check(fd, size, sizeSeals, unix.F_SEAL_WRITE|unix.F_SEAL_FUTURE_WRITE); err != nil {
		return nil, err
	}
	return mapFile(fd, size, unix.PROT_READ|unix.PROT_WRITE)
}

// OpenBell maps a file that CreateBell made, for reading.
func OpenBell(fd int) ([]byte, error) { return OpenReadOnly(fd, BellSize) }

// OpenReadOnly maps a file that CreateReadOnly made, for reading. Errors as of Open.
func OpenReadOnly(fd, size int) ([]byte, error) {
	if err := check(fd, size, sizeSeals, 0); err != nil {
		return nil, err
	}
	return mapFile(fd, size, unix.PROT_READ)
}

// check reports whether fd is a memory file of that size with all of the wanted seals
// and none of the others.
func check(fd, size, want, without int) error {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return fmt.Errorf("%w: it has no seals: %v", ErrUnsafeFile, err)
	}
	if seals&want != want || seals&without != 0 {
		return fmt.Errorf("%w: seals %#x, want %#x", ErrUnsafeFile, seals, want)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return os.NewSyscallError("fstatfs", err)
	}
	// A file of huge pages can fail to give a page later, which is a SIGBUS too.
	if int64(fs.Type) != tmpfs || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("%w: not an ordinary memory file", ErrUnsafeFile)
	}
	if st.Size != int64(size) {
		return fmt.Errorf("%w: %d bytes, want %d", ErrUnsafeFile, st.Size, size)
	}
	return nil
}

func mapFile(fd, size, prot int) ([]byte, error) {
	mem, err := unix.Mmap(fd, 0, size, prot, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return mem, nil
}

// Unmap ends a mapping. Nobody may use its memory any more. nil is allowed.
func Unmap(mem []byte) {
	if mem != nil {
		_ = unix.Munmap(mem)
	}
}
