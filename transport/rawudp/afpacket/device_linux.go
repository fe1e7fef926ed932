package afpacket

import (
	"encoding/binary"
	"fmt"
	"os"

	"github.com/userspace-rpc/erpc/transport/rawudp"
	"golang.org/x/sys/unix"
)

// Sizes in bytes.
const (
	vnetSize = 10 // struct virtio_net_hdr, in front of each frame
	// maxFrame is the largest frame without a tag: a train's IP packet is the limit. The
	// kernel cuts up trains of 64 KiB and more.
	maxFrame = 1<<16 - 1
	// slotSize holds the largest frame behind its descriptor. It is no power of two, so that
	// the first lines of all slots do not compete for the same set of the cache.
	slotSize = 66048
)

// device is a packet socket as a rawudp.Device.
type device struct {
	fd    int
	port  int // the kernel's UDP socket that reserves the port
	caps  rawudp.DeviceCaps
	local rawudp.Local

	guard    *guard
	guardErr error // why there is none

	rx    ring
	tx    sender
	stats rawudp.DeviceStats
	drops uint64
	shut  bool
}

var (
	_ rawudp.Device  = (*device)(nil)
	_ rawudp.Heedful = (*device)(nil)
)

// open opens a packet socket on l. It sets local.Port if that is 0.
func open(l rawudp.Link, local *rawudp.Local, cfg Config) (d *device, err error) {
	d = &device{fd: -1, port: -1}
	defer func() {
		if err != nil {
			d.Close()
		}
	}()
	if d.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC,
		0); err != nil {
		return d, privilege(err)
	}
	if d.port, err = reserve(local); err != nil {
		return d, err
	}
	d.local = *local
	trains := !cfg.NoOffload && kernelAtLeast(6, 2) // virtio_net.h: GSO_UDP_L4
	offload := !cfg.NoOffload
	if offload && !trains {
		// A train that the kernel cannot describe would be lost with offloads on.
		offload = false
	}
	if err = d.options(offload, cfg); err != nil {
		return d, err
	}
	if err = d.rx.open(d.fd, cfg.Ring, offload); err != nil {
		return d, fmt.Errorf("afpacket: ring of %d frames: %w", cfg.Ring, err)
	}
	d.tx.init(d.fd, offload)
	d.caps = rawudp.DeviceCaps{
		Name: "afpacket", FrameSize: maxFrame, TrainSize: maxFrame, RxRing: cfg.Ring, Segments: 1,
		TxCopies: true,
	}
	if offload {
		d.caps.Checksum, d.caps.Gather = true, maxPieces
		if !cfg.NoTrains {
			d.caps.Segments = maxSegments
		}
	}
	// The filter is in place, so no frame of others comes in.
	if err = d.bind(l.Index); err != nil {
		return d, &rawudp.LinkError{Link: l.Name, Err: err}
	}
	if cfg.Guard != GuardOff {
		if d.guard, d.guardErr = newGuard(d.local, l.Index); d.guardErr != nil && cfg.Guard == GuardMust {
			return d, d.guardErr
		}
	}
	return d, nil
}

// options sets what must be set before the ring is made.
func (d *device) options(offload bool, cfg Config) error {
	flag := map[bool]int{true: 1}
	for _, o := range []struct {
		name       string
		opt, value int
	}{
		{"PACKET_VERSION", unix.PACKET_VERSION, unix.TPACKET_V2},
		{"PACKET_VNET_HDR", unix.PACKET_VNET_HDR, flag[offload]},
		{"PACKET_RESERVE", unix.PACKET_RESERVE, reserveFor(d.local.IP.Is6(), offload)},
		{"PACKET_IGNORE_OUTGOING", unix.PACKET_IGNORE_OUTGOING, 1},
		{"PACKET_QDISC_BYPASS", unix.PACKET_QDISC_BYPASS, flag[cfg.BypassQdisc]},
	} {
		if err := unix.SetsockoptInt(d.fd, unix.SOL_PACKET, o.opt, o.value); err != nil {
			return fmt.Errorf("afpacket: %w", os.NewSyscallError("setsockopt "+o.name, err))
		}
	}
	// Beyond the system's limit if this process may, else up to it.
	const buffer = 8 << 20
	if unix.SetsockoptInt(d.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, buffer) != nil {
		_ = unix.SetsockoptInt(d.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, buffer)
	}
	err := unix.SetsockoptSockFprog(d.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		filterProgram(filter(d.local)))
	if err != nil {
		return fmt.Errorf("afpacket: %w", os.NewSyscallError("setsockopt SO_ATTACH_FILTER", err))
	}
	return nil
}

// reserveFor returns the bytes to leave free in front of a frame so that its UDP payload begins on
// a cache line.
func reserveFor(v6, vnet bool) int {
	// where the kernel puts the IP header: struct tpacket2_hdr, sockaddr_ll, Ethernet, aligned
	net := 80
	if vnet {
		net += vnetSize
	}
	headers := 20 + 8
	if v6 {
		headers = 40 + 8
	}
	return (64 - (net+headers)%64) % 64
}

func (d *device) bind(index int) error {
	all := binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, unix.ETH_P_ALL))
	return unix.Bind(d.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: index})
}

// kernelAtLeast reports whether this is Linux major.minor or newer.
func kernelAtLeast(major, minor int) bool {
	var u unix.Utsname
	var a, b int
	if unix.Uname(&u) != nil {
		return false
	}
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &a, &b); err != nil {
		return false
	}
	return a > major || a == major && b >= minor
}

// Caps implements rawudp.Device.
func (d *device) Caps() rawudp.DeviceCaps { return d.caps }

// SocketFD is the kernel's UDP socket that reserves the port, see rawudp.Heedful.
func (d *device) SocketFD() int { return d.port }

// FD implements rawudp.Device.
func (d *device) FD() int { return d.fd }

// Flush does nothing: the kernel has copied every frame when Send returns.
func (d *device) Flush() {}

// Fault reads and clears the socket's error. Going down leaves one.
func (d *device) Fault() error {
	code, err := unix.GetsockoptInt(d.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return err
	}
	if code == 0 {
		return nil
	}
	_, err = judge(unix.Errno(code))
	return err
}

// Attach binds the socket to another link, or to the same again.
func (d *device) Attach(l rawudp.Link) error {
	if err := d.bind(l.Index); err != nil {
		return err
	}
	if d.guard != nil {
		d.guardErr = d.guard.attach(l.Index)
	}
	return nil
}

// Stats implements rawudp.Device.
func (d *device) Stats() rawudp.DeviceStats {
	if !d.shut {
		d.drops += uint64(sysStats(d.fd))
	}
	d.stats.RxDropped = d.drops + d.rx.cut
	d.stats.TxCalls, d.stats.RxCalls = d.tx.calls, d.rx.calls
	return d.stats
}

// Close frees everything.
func (d *device) Close() error {
	d.shut = true
	if d.guard != nil {
		d.guard.close()
	}
	d.rx.close()
	var err error
	if d.fd >= 0 {
		err = unix.Close(d.fd)
	}
	// Last, so that no late frame meets a closed port.
	if d.port >= 0 {
		unix.Close(d.port)
	}
	return err
}
