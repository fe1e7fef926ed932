package afpacket

import (
	"encoding/binary"

	"github.com/userspace-rpc/erpc/transport/rawudp"
	"golang.org/x/sys/unix"
)

const (
	txFrames = 32 // most frames of a sendmmsg
	// maxSegments is the most packets that the kernel takes in a train (UDP_MAX_SEGMENTS since 6.11;
	// 64 before, which it also says of larger ones by refusing them).
	maxSegments = 128
	maxPieces   = 2 * maxSegments // of a frame outside the staging area
	txLead      = 16              // bytes in front of a frame; the virtio header ends there
	txStep      = txLead + slotSize
	udpCheck    = 6 // offset of the checksum in the UDP header
)

// sender stages frames and sends them.
type sender struct {
	fd   int
	vnet bool

	frames  []rawudp.TxFrame
	mem     []byte
	pieces  [][]byte // maxPieces for each frame
	vectors []unix.Iovec
	msgs    []mmsghdr

	calls uint64
}

func (s *sender) init(fd int, vnet bool) {
	s.fd, s.vnet = fd, vnet
	s.frames = make([]rawudp.TxFrame, txFrames)
	s.mem = make([]byte, txFrames*txStep) // of which only what is used takes memory
	s.pieces = make([][]byte, txFrames*maxPieces)
	s.vectors = make([]unix.Iovec, txFrames*(maxPieces+1))
	s.msgs = make([]mmsghdr, txFrames)
	for i := range s.frames {
		at := i*txStep + txLead
		s.frames[i].Mem = s.mem[at : at+slotSize]
		s.msgs[i].hdr.Iov = &s.vectors[i*(maxPieces+1)]
	}
}

// Reserve implements rawudp.Device.
func (d *device) Reserve(n int) []rawudp.TxFrame {
	s := &d.tx
	n = min(n, txFrames)
	for i := range s.frames[:n] {
		s.frames[i].Pieces = s.pieces[i*maxPieces : i*maxPieces : (i+1)*maxPieces]
	}
	return s.frames[:n]
}

// Send implements rawudp.Device.
func (d *device) Send(n int) (int, error) {
	s := &d.tx
	if n == 1 && len(s.frames[0].Pieces) == 0 { // the latency of a lone packet matters most
		return s.sendOne()
	}
	used := 0
	for i := range s.frames[:n] {
		used = max(used, s.gather(i))
	}
	done, err := s.sendAll(n)
	for i := range s.frames[:n] { // nothing here may keep the caller's memory alive
		f := &s.frames[i]
		clear(s.vectors[i*(maxPieces+1):][:len(f.Pieces)+1])
		clear(f.Pieces)
		f.Pieces = f.Pieces[:0]
	}
	return done, err
}

// sendOne sends the first frame, which is in one piece, by the shortest way.
func (s *sender) sendOne() (int, error) {
	s.calls++
	e := sysSend(s.fd, s.head(0))
	if e == 0 {
		return 1, nil
	}
	refused, err := judge(e)
	if refused {
		s.frames[0].Refused = true
		return 1, nil
	}
	return 0, err
}

// sendAll sends the first n frames, whose vectors are ready.
func (s *sender) sendAll(n int) (done int, err error) {
	for done < n {
		s.calls++
		k, e := sysSendmmsg(s.fd, s.msgs[done:n])
		if e == 0 && k > 0 {
			done += k
			continue
		}
		refused, err := judge(e)
		if !refused {
			return done, err
		}
		s.frames[done].Refused = true
		done++
	}
	return done, nil
}

// head returns the staged part of frame i, with the virtio header in front if there is one.
func (s *sender) head(i int) []byte {
	f := &s.frames[i]
	p := s.mem[i*txStep:][: txLead+f.Len : txLead+f.Len]
	if !s.vnet {
		return p[txLead:]
	}
	p = p[txLead-vnetSize:]
	h := (*[vnetSize]byte)(p)
	*h = [vnetSize]byte{}
	if f.Partial {
		h[0] = vnetNeedsCsum
		binary.NativeEndian.PutUint16(h[6:], uint16(f.L4))
		binary.NativeEndian.PutUint16(h[8:], udpCheck)
	}
	// What the kernel copies into the first part of its buffer: without, it wants all of it in one
	// piece of memory.
	binary.NativeEndian.PutUint16(h[2:], uint16(f.Header))
	if f.Segment > 0 {
		h[1] = vnetGSOUDP
		binary.NativeEndian.PutUint16(h[4:], uint16(f.Segment))
	}
	return p
}

// gather makes the vectors of frame i and returns how many.
func (s *sender) gather(i int) int {
	f := &s.frames[i]
	v := s.vectors[i*(maxPieces+1):][:len(f.Pieces)+1]
	p := s.head(i)
	v[0].Base = &p[0]
	v[0].SetLen(len(p))
	for j, q := range f.Pieces {
		v[j+1].Base = &q[0]
		v[j+1].SetLen(len(q))
	}
	s.msgs[i].hdr.SetIovlen(len(v))
	return len(v)
}

// judge says what an error means for the frame that met it: whether the frame can never be
// sent, and if not, the fault of the device; nil means only that it takes no more now.
func judge(e unix.Errno) (refused bool, err error) {
	switch e {
	case 0, unix.EAGAIN, unix.ENOBUFS, unix.ENOMEM, unix.EINTR:
		return false, nil
	case unix.ENETDOWN:
		return false, rawudp.ErrLinkDown
	case unix.ENXIO, unix.ENODEV:
		return false, rawudp.ErrLinkGone
	case unix.EBADF, unix.ENOTSOCK:
		return false, e
	}
	return true, nil
}
