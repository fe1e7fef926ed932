//go:build !linux

package udp

import "github.com/userspace-rpc/erpc/transport"

const haveKernel = false

func listenKernel(listenAddr, Config) (implementation, error) {
	return nil, transport.ErrUnsupported
}

func listenKernelGroup(listenAddr, int, Config) ([]implementation, error) {
	return nil, transport.ErrUnsupported
}

// Probe reports what the kernel offers: nothing of it outside Linux.
func Probe() Features { return Features{} }

// PathMTU returns the largest packet, in bytes of UDP payload, that fits the
// interface towards dst.
func PathMTU(dst transport.Addr) (int, error) { return InterfaceMTU(dst) }

// route returns what PathMTU does, and whether dst is a loopback address.
func route(dst transport.Addr) (mtu int, local bool, err error) {
	mtu, err = PathMTU(dst)
	return mtu, dst.AddrPort().Addr().Unmap().IsLoopback(), err
}
