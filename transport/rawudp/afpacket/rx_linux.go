package afpacket

import (
	"encoding/binary"

	"github.com/userspace-rpc/erpc/transport/rawudp"
	"golang.org/x/sys/unix"
)

// Fields of struct virtio_net_hdr (linux/virtio_net.h), in the machine's byte order.
const (
	vnetNeedsCsum = 1 // flags: the checksum is to be completed
	vnetDataValid = 2 // flags: the checksum is right
	vnetGSOUDP    = 5 // gso_type: UDP_L4
)

// ring is the mapped receive ring. Slots from tail to head are lent out.
type ring struct {
	mem        []byte
	slots      int
	vnet       bool
	head, tail int // below slots
	held       int // slots from tail to head

	calls uint64
	cut   uint64 // frames too large for a slot
}

func (r *ring) open(fd, slots int, vnet bool) (err error) {
	req := unix.TpacketReq{
		Block_size: ringUnit * slotSize, Block_nr: uint32(slots / ringUnit), Frame_size: slotSize,
		Frame_nr: uint32(slots),
	}
	if err = unix.SetsockoptTpacketReq(fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &req); err != nil {
		return err
	}
	r.slots, r.vnet = slots, vnet
	r.mem, err = unix.Mmap(fd, 0, slots*slotSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return err
}

func (r *ring) close() {
	if r.mem != nil {
		_ = unix.Munmap(r.mem)
		r.mem = nil
	}
}

// Pending implements rawudp.Device.
func (d *device) Pending() bool {
	return d.rx.held < d.rx.slots &&
		slotAt(d.rx.mem, d.rx.head*slotSize).load()&unix.TP_STATUS_USER != 0
}

// Receive implements rawudp.Device.
func (d *device) Receive(frames []rawudp.RxFrame) (int, error) {
	r := &d.rx
	r.calls++
	for ; r.held > 0; r.held-- {
		slotAt(r.mem, r.tail*slotSize).free()
		if r.tail++; r.tail == r.slots {
			r.tail = 0
		}
	}
	n := 0
	for n < len(frames) && r.held < r.slots {
		base := r.head * slotSize
		s := slotAt(r.mem, base)
		status := s.load()
		if status&unix.TP_STATUS_USER == 0 {
			break
		}
		if r.head++; r.head == r.slots {
			r.head = 0
		}
		r.held++
		if s.Snaplen < s.Len || int(s.Mac)+int(s.Snaplen) > slotSize {
			r.cut++
			continue
		}
		f := &frames[n]
		f.Data = r.mem[base+int(s.Mac) : base+int(s.Mac)+int(s.Snaplen)]
		f.VLAN, f.Segment, f.Checksum = rawudp.NoVLAN, 0, rawudp.ChecksumUnknown
		if status&unix.TP_STATUS_VLAN_VALID != 0 {
			f.VLAN = int(s.Vlan_tci)
		}
		if r.vnet {
			if !readVnet(f, (*[vnetSize]byte)(r.mem[base+int(s.Mac)-vnetSize:])) {
				continue
			}
		} else if status&unix.TP_STATUS_CSUM_VALID != 0 {
			f.Checksum = rawudp.ChecksumGood
		} else if status&unix.TP_STATUS_CSUMNOTREADY != 0 {
			f.Checksum = rawudp.ChecksumPartial
		}
		n++
	}
	return n, nil
}

// readVnet fills in f what the kernel says of the frame. It returns false if that makes no sense.
func readVnet(f *rawudp.RxFrame, h *[vnetSize]byte) bool {
	switch {
	case h[0]&vnetNeedsCsum != 0:
		f.Checksum = rawudp.ChecksumPartial
	case h[0]&vnetDataValid != 0:
		f.Checksum = rawudp.ChecksumGood
	}
	if h[1] == 0 {
		return true
	}
	f.Segment = int(binary.NativeEndian.Uint16(h[4:]))
	return h[1] == vnetGSOUDP && f.Segment > 0
}
