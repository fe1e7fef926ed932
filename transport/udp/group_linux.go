package udp

import (
	"errors"
	"net/netip"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// Where packets say their loop besides loopAt; package wire has all of it.
const (
	loopMask   = 0x7F
	numberAt   = 8        // a number of 24 bits, and loopAt behind it
	noSession  = 0xFFFFFF // as number: the packet is of no session
	cookieLoop = 73       // of a packet that opens a session: its loop, 0 if it is the first such
	openerSize = 88       // the least bytes of such a packet
)

// miss is an index that no socket has: the kernel's hash decides.
const miss = 0xFFFFFFFF

// group is the sockets of one address.
type group struct {
	mu    sync.Mutex
	fds   []int // in the kernel's order: when one is closed, the last takes its place
	loops []int // the loop of each, from 1 on
	most  int   // loops at the start
}

// listenKernelGroup opens sockets on an address, and has the kernel steer packets to them.
func listenKernelGroup(l listenAddr, n int, cfg Config) (impls []implementation, err error) {
	fds, ip4, err := bindGroup(l, n, cfg)
	if err != nil {
		return nil, err
	}
	g := &group{fds: slices.Clone(fds), most: n}
	for i := range fds {
		g.loops = append(g.loops, i+1)
	}
	if err = g.attach(); err != nil {
		for _, fd := range fds {
			unix.Close(fd)
		}
		return nil, &GroupError{n, "the kernel takes no filter", err}
	}
	for i, fd := range fds {
		c, err := newKernel(fd, ip4, l, cfg)
		if err != nil { // it has closed its socket
			g.left(fd)
			for _, rest := range fds[i+1:] {
				_ = g.close(rest)
			}
			for _, open := range impls {
				err = errors.Join(err, open.Close())
			}
			return nil, err
		}
		c.group = g
		impls = append(impls, c)
	}
	return impls, nil
}

// bindGroup opens the sockets. The first is bound as if it were alone: that fails if anybody has
// the address, another group too.
func bindGroup(l listenAddr, n int, cfg Config) (fds []int, ip4 bool, err error) {
	fd, ip4, err := openSocket(l, cfg)
	if err != nil {
		return nil, false, err
	}
	fds = append(fds, fd)
	defer func() {
		if err != nil {
			for _, fd := range fds {
				unix.Close(fd)
			}
		}
	}()
	if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return fds, ip4, &GroupError{n, "no SO_REUSEPORT", os.NewSyscallError("setsockopt", err)}
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return fds, ip4, os.NewSyscallError("getsockname", err)
	}
	bound := addrOf(sa)
	ip := l.ap.Addr()
	if ip4 && !isIPv4(ip) {
		ip = netip.IPv4Unspecified() // there is no IPv6
	}
	l.ap = netip.AddrPortFrom(ip, uint16(bound.Port))
	cfg.ReusePort = true
	for len(fds) < n {
		if fd, err = bindSocket(l, ip4, cfg); err != nil {
			return fds, ip4, err
		}
		fds = append(fds, fd)
	}
	return fds, ip4, nil
}

// close closes a socket of the group, and has the kernel steer by the others.
func (g *group) close(fd int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := unix.Close(fd)
	g.removed(fd)
	return err
}

// left notes that a socket has been closed.
func (g *group) left(fd int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.removed(fd)
}

// removed is left under the lock.
func (g *group) removed(fd int) {
	for i := range g.fds {
		if g.fds[i] != fd {
			continue
		}
		last := len(g.fds) - 1
		g.fds[i], g.loops[i] = g.fds[last], g.loops[last]
		g.fds, g.loops = g.fds[:last], g.loops[:last]
		break
	}
	if len(g.fds) > 0 {
		_ = g.attach() // else receivers hand over what the old filter steers wrongly
	}
}

// attach gives the kernel the filter for the sockets that are open.
func (g *group) attach() error {
	place := make([]uint32, g.most)
	for i := range place {
		place[i] = miss
	}
	for i, loop := range g.loops {
		place[loop-1] = uint32(i)
	}
	prog := steering(place)
	err := unix.SetsockoptSockFprog(g.fds[0], unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF,
		&unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]})
	return os.NewSyscallError("setsockopt SO_ATTACH_REUSEPORT_CBPF", err)
}

// steering returns a program of classic BPF that gives the index of the socket for a packet. It
// sees the UDP payload. Place has the index of each loop's socket, or miss.
func steering(place []uint32) []unix.SockFilter {
	const (
		size  = unix.BPF_LD | unix.BPF_W | unix.BPF_LEN
		load  = unix.BPF_LD | unix.BPF_B | unix.BPF_ABS
		word  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		and   = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
		right = unix.BPF_ALU | unix.BPF_RSH | unix.BPF_K
		sub   = unix.BPF_ALU | unix.BPF_SUB | unix.BPF_K
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		atMin = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		above = unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K
		ret   = unix.BPF_RET | unix.BPF_K
		retA  = unix.BPF_RET | unix.BPF_A
	)
	op := func(code int, k uint32) unix.SockFilter { return unix.SockFilter{Code: uint16(code), K: k} }
	// jump skips so many instructions if the condition holds, or does not.
	jump := func(code int, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: uint16(code), Jt: yes, Jf: no, K: k}
	}
	prog := []unix.SockFilter{
		op(size, 0), jump(atMin, loopAt+1, 1, 0), op(ret, miss), // a load beyond the end would give 0
		op(load, loopAt), op(and, loopMask), jump(equal, 0, 0, 8), // a loop is said: behind this list
		op(word, numberAt), op(right, 8), jump(equal, noSession, 1, 0), op(ret, miss),
		op(size, 0), jump(atMin, openerSize, 1, 0), op(ret, miss),
		op(load, cookieLoop),
	}
	for i, at := range place {
		if at != uint32(i) {
			prog = append(prog, jump(equal, uint32(i+1), 0, 1), op(ret, at))
		}
	}
	return append(prog,
		jump(equal, 0, 0, 1), op(ret, miss),
		jump(above, uint32(len(place)), 0, 1), op(ret, miss),
		op(sub, 1), op(retA, 0))
}
