package shm

import (
	"encoding/binary"
	"fmt"
	"net"

	"github.com/userspace-rpc/erpc/internal/shmem"
	"github.com/userspace-rpc/erpc/transport"
	"golang.org/x/sys/unix"
)

// message goes between endpoints while they connect. Sockets keep the
// boundaries of messages (SOCK_SEQPACKET).
//
//	connecting side -> hello   + the pair's memory file, its bell's
//	accepting side  -> welcome + its bell's, or refuse
//
// After that only single bytes follow, which mean "wake up".
type message struct {
	Magic [8]byte
	Kind  uint32
	Why   uint32 // of refuse
	From  transport.Addr
	To    transport.Addr
	Ring  uint64 // bytes; hello
	Limit uint32 // largest packet in bytes; hello: wished for, welcome: agreed
	Flags uint32 // hello and welcome
}

// Flags of hello and welcome.
const canBarrier = 1 // shmem.CanBarrier

func flags() uint32 {
	if shmem.CanBarrier() {
		return canBarrier
	}
	return 0
}

var magic = [8]byte{'e', 'r', 'p', 'c', 's', 'h', 'm', '1'}

// Kinds of messages.
const (
	kindHello = 1 + iota
	kindWelcome
	kindRefuse
)

// Reasons to refuse.
const (
	whyTwice = 1 + iota // there is a connection, or ours goes first
	whyLimit
	whyUser
	whyBad
	whyFiles
)

var messageSize = binary.Size(message{})

// sendMessage sends m with file descriptors, which stay the caller's.
func sendMessage(c *net.UnixConn, m message, fds ...int) error {
	m.Magic = magic
	b, err := binary.Append(nil, binary.LittleEndian, &m)
	if err != nil {
		return err
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	_, _, err = c.WriteMsgUnix(b, rights, nil)
	return err
}

// receiveMessage waits for a message of one of the kinds, with so many file
// descriptors, which are the caller's. A refusal is an error.
func receiveMessage(c *net.UnixConn, kind uint32, want int) (m message, fds []int, err error) {
	buf := make([]byte, messageSize+1)
	oob := make([]byte, unix.CmsgSpace(4*4))
	n, oobn, flags, _, err := c.ReadMsgUnix(buf, oob)
	fds = descriptors(oob[:oobn])
	switch {
	case err != nil:
		err = fmt.Errorf("%w: %v", ErrHandshake, err)
	case flags&unix.MSG_CTRUNC != 0: // or the peer sent more of them than anybody takes
		err = fmt.Errorf("%w: %w: what came with a message", ErrHandshake, unix.EMFILE)
	case n != messageSize || flags&unix.MSG_TRUNC != 0:
		err = fmt.Errorf("%w: message of %d bytes", ErrHandshake, n)
	default:
		_, err = binary.Decode(buf[:n], binary.LittleEndian, &m)
		switch {
		case err != nil:
		case m.Magic != magic:
			err = fmt.Errorf("%w: not this protocol", ErrHandshake)
		case m.Kind == kindRefuse && kind != kindHello:
			err = &refusal{m.Why}
		case m.Kind != kind || len(fds) != want:
			err = fmt.Errorf("%w: message %d with %d descriptors", ErrHandshake, m.Kind, len(fds))
		}
	}
	if err != nil {
		closeAll(fds)
		fds = nil
	}
	return m, fds, err
}

// refusal is a refuse message as an error.
type refusal struct{ why uint32 }

func (r *refusal) Error() string {
	reason := "unknown reason"
	switch r.why {
	case whyTwice:
		reason = "there is a connection already"
	case whyLimit:
		reason = "it has too many"
	case whyUser:
		reason = "another user"
	case whyBad:
		reason = "bad request"
	case whyFiles:
		reason = "it has no file descriptors left"
	}
	return ErrRefused.Error() + ": " + reason
}

func (r *refusal) Unwrap() error { return ErrRefused }

// descriptors returns the file descriptors in control messages.
func descriptors(oob []byte) (fds []int) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range messages {
		if got, err := unix.ParseUnixRights(&messages[i]); err == nil {
			fds = append(fds, got...)
		}
	}
	return fds
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// peerUser returns the user of the process at the other end, as the kernel noted it at connect(2)
// or listen(2).
func peerUser(c *net.UnixConn) (uint32, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	cerr := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if cerr != nil {
		return 0, cerr
	}
	if err != nil {
		return 0, err
	}
	return cred.Uid, nil
}

// duplicate returns a descriptor of c's socket that c does not own.
func duplicate(c *net.UnixConn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, err
	}
	copied := -1
	cerr := raw.Control(func(fd uintptr) {
		copied, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0)
	})
	if cerr != nil {
		return -1, cerr
	}
	return copied, err
}
