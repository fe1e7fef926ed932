package udp

import (
	"encoding/binary"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"

	"golang.org/x/sys/unix"
)

// stamps are the times at which the kernel met messages, by the real-time clock in ns since 1970; 0
// if unknown.
type stamps struct {
	wanted bool  // the socket was asked for them
	stamp  int64 // of the message being split
	first  int64 // of the message that began the last burst
}

// readStamp reads the body of a control message: two native-endian int64, seconds and ns.
func readStamp(body []byte) int64 {
	if len(body) < 16 {
		return 0
	}
	return int64(binary.NativeEndian.Uint64(body))*1e9 + int64(binary.NativeEndian.Uint64(body[8:]))
}

// stampAll asks the kernel for stamps, or for none any more. A system that refuses gives no stamps.
func (r *receiver) stampAll(on bool) {
	value := 0
	if r.wanted = on; on {
		value = 1
	}
	_ = unix.SetsockoptInt(r.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS_NEW, value)
}

// Waited returns for how long the message that began the last burst has been here. The first call
// asks the kernel for stamps. Each costs some tens of ns, so sockets whose reader does not fall
// behind have none, nor have those that read packets one by one.
func (c *kernelConn) Waited() time.Duration {
	r := &c.rx
	if !r.wanted && r.mode != rxLone {
		r.stampAll(true)
	}
	if r.first == 0 || c.out != nil { // or of several sockets
		return 0
	}
	return max(0, time.Duration(monotime.Wall().UnixNano()-r.first))
}
