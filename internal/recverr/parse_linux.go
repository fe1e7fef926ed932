package recverr

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Parse reads an extended error from a control message of a level and a type. It reports false for
// other control messages.
func Parse(level, kind int32, body []byte) (e unix.SockExtendedErr, ok bool) {
	if (level != unix.SOL_IP || kind != unix.IP_RECVERR) &&
		(level != unix.SOL_IPV6 || kind != unix.IPV6_RECVERR) || len(body) < 16 {
		return e, false
	}
	e.Errno = binary.NativeEndian.Uint32(body)
	e.Origin, e.Type, e.Code = body[4], body[5], body[6]
	e.Info = binary.NativeEndian.Uint32(body[8:])
	return e, true
}

// PortUnreachable reports whether an error is ICMP "port unreachable" (RFC 792; RFC 4443, section
// 3.1).
func PortUnreachable(e *unix.SockExtendedErr) bool {
	what := [3]uint8{e.Origin, e.Type, e.Code}
	return what == [3]uint8{unix.SO_EE_ORIGIN_ICMP, 3, 3} ||
		what == [3]uint8{unix.SO_EE_ORIGIN_ICMP6, 1, 4}
}
