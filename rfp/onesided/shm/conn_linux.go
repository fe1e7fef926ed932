package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/userspace-rpc/erpc/internal/shmem"
	"github.com/userspace-rpc/erpc/rfp/onesided"
	"golang.org/x/sys/unix"
)

// The dialling side says which regions it wants on both sides; the listening side answers with
// one byte, and the files of all that are shared: its own first.
const (
	magic      = 0x646573656e6f3101 // "onesed", version
	helloBytes = 16 + 2*onesided.MaxRegions*9
	accepted   = 'y'
	refused    = 'n'
	// patience is how long a side waits for the other's part of the handshake.
	patience = 5 * time.Second
)

// serverHandshake is the listening side's part of the handshake.
func (l *Listener) serverHandshake(c *net.UnixConn) (*Link, error) {
	var got [helloBytes]byte
	if _, err := io.ReadFull(c, got[:]); err != nil {
		return nil, err
	}
	if got != hello(l.peer, l.own) {
		_, err := c.Write([]byte{refused})
		return nil, errors.Join(onesided.ErrSpec, err)
	}
	link := &Link{own: l.own, peer: l.peer}
	var fds []int
	var maps [][]byte
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}()
	give := func(specs []onesided.Spec, readOnly bool) (mem [][]byte, err error) {
		for _, s := range specs {
			m, fd := onesided.Memory(0), -1
			switch {
			case s.Access == 0 && readOnly:
				m = onesided.Memory(s.Size)
			case s.Access == 0: // the peer's own affair
			case s.Access == onesided.PeerReads && readOnly:
				fd, m, err = shmem.CreateReadOnly(s.Size)
			default:
				fd, m, err = shmem.Create(s.Size)
			}
			if err != nil {
				return mem, err
			}
			if fd >= 0 {
				fds, maps = append(fds, fd), append(maps, m)
			}
			mem = append(mem, m)
		}
		return mem, nil
	}
	var err error
	if link.mem, err = give(l.own, true); err == nil {
		link.far, err = give(l.peer, false)
	}
	if err == nil {
		_, _, err = c.WriteMsgUnix([]byte{accepted}, unix.UnixRights(fds...), nil)
	}
	link.watch(c, maps)
	if err != nil {
		_ = link.Close()
		return nil, err
	}
	return link, nil
}

// watch notices the end of the peer, and lets Close undo everything.
func (l *Link) watch(c *net.UnixConn, maps [][]byte) {
	_ = c.SetDeadline(time.Time{})
	ended := make(chan struct{})
	go func() {
		var b [1]byte
		_, _ = c.Read(b[:]) // an honest peer sends nothing
		l.gone.Store(true)
		close(ended)
	}()
	l.free = func() {
		_ = c.Close()
		<-ended
		for _, m := range maps {
			shmem.Unmap(m)
		}
	}
}

// hello is the first message of the dialling side.
func hello(own, peer []onesided.Spec) (b [helloBytes]byte) {
	binary.LittleEndian.PutUint64(b[:], magic)
	b[8], b[9] = byte(len(own)), byte(len(peer))
	at := 16
	for _, s := range append(append([]onesided.Spec(nil), own...), peer...) {
		binary.LittleEndian.PutUint64(b[at:], uint64(s.Size))
		b[at+8] = byte(s.Access)
		at += 9
	}
	return b
}

// Dial joins the process that listens at path. Its regions and those of the listening side must
// be what that side has. Errors: onesided.ErrSpec if not, those of the system.
func Dial(path string, own, peer []onesided.Spec) (*Link, error) {
	if err := errors.Join(onesided.CheckSpecs(own), onesided.CheckSpecs(peer)); err != nil {
		return nil, err
	}
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	link := &Link{own: own, peer: peer}
	maps, err := link.take(c)
	link.watch(c, maps)
	if err != nil {
		_ = link.Close()
		return nil, err
	}
	return link, nil
}

// take is the dialling side's part of the handshake. It returns all mappings, also with an error.
func (l *Link) take(c *net.UnixConn) (maps [][]byte, err error) {
	b := hello(l.own, l.peer)
	if _, err = c.Write(b[:]); err != nil {
		return nil, err
	}
	fds, err := receive(c)
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}()
	if err != nil {
		return nil, err
	}
	next := 0
	open := func(s onesided.Spec, mine bool) ([]byte, error) {
		if s.Access == 0 {
			if mine {
				return onesided.Memory(s.Size), nil
			}
			return nil, nil
		}
		if next == len(fds) {
			return nil, fmt.Errorf("%w: %d files", onesided.ErrSpec, len(fds))
		}
		fd := fds[next]
		next++
		how := shmem.Open
		if !mine && s.Access == onesided.PeerReads {
			how = shmem.OpenReadOnly
		}
		m, err := how(fd, s.Size)
		if err == nil {
			maps = append(maps, m)
		}
		return m, err
	}
	for _, s := range l.peer {
		m, err := open(s, false)
		if err != nil {
			return maps, err
		}
		l.far = append(l.far, m)
	}
	for _, s := range l.own {
		m, err := open(s, true)
		if err != nil {
			return maps, err
		}
		l.mem = append(l.mem, m)
	}
	return maps, nil
}

// receive reads the answer to a hello, with its files.
func receive(c *net.UnixConn) (fds []int, err error) {
	var b [1]byte
	oob := make([]byte, unix.CmsgSpace(4*2*onesided.MaxRegions))
	n, m, _, _, err := c.ReadMsgUnix(b[:], oob)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:m])
	if err != nil {
		return nil, err
	}
	for i := range messages {
		if got, err := unix.ParseUnixRights(&messages[i]); err == nil {
			fds = append(fds, got...)
		}
	}
	if n != 1 || b[0] != accepted {
		return fds, fmt.Errorf("%w: the other side has different ones", onesided.ErrSpec)
	}
	return fds, nil
}
