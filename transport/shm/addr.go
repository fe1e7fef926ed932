package shm

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/userspace-rpc/erpc/transport"
)

// An address holds 80 random bits, 64 in the low half of IP and 16 in Port, and in Scope the user
// of its endpoint, plus one. The high half of IP is the discard prefix 100::/64 (RFC 6666), to
// which no IP network delivers, so no address of another transport looks like it. The bits are
// spread so that the text of a transport.Addr says them all.
const prefix = 0x0100_0000_0000_0000

// idPrefix begins the name of a socket: i-HEX belongs to the endpoint with that address.
const idPrefix = "i-"

// newAddr returns the address of a new endpoint. It is never used again.
func newAddr() transport.Addr {
	var a transport.Addr
	var r [8 + 2]byte
	for a.Port == 0 {
		rand.Read(r[:])
		binary.BigEndian.PutUint64(a.IP[:], prefix)
		copy(a.IP[8:], r[:8])
		a.Port = uint32(binary.BigEndian.Uint16(r[8:]))
	}
	a.Scope = uint32(os.Geteuid()) + 1 // nobody has 1<<32 - 1
	return a
}

// userOf returns the user of the endpoint with an address, as that endpoint says.
func userOf(a transport.Addr) uint32 { return a.Scope - 1 }

// IsAddr reports whether a is an address of this transport, and so of no other. It costs
// a nanosecond or two.
func IsAddr(a *transport.Addr) bool { return isAddr(*a) }

// isAddr reports whether a is an address of this transport.
func isAddr(a transport.Addr) bool {
	return binary.BigEndian.Uint64(a.IP[:]) == prefix && a.Scope != 0 && a.Port != 0 &&
		a.Port <= 0xFFFF
}

// less orders addresses. Which of two endpoints decides a race between them depends on it.
func less(a, b transport.Addr) bool {
	return string(a.Append(nil)) < string(b.Append(nil))
}

// hash spreads addresses over tables: they are random already.
func hash(a *transport.Addr) uint64 { return binary.LittleEndian.Uint64(a.IP[8:]) }

// fileOf returns the name of the socket of a.
func fileOf(a transport.Addr) string {
	b := append([]byte(nil), a.IP[8:]...)
	b = binary.BigEndian.AppendUint32(b, a.Scope)
	b = binary.BigEndian.AppendUint16(b, uint16(a.Port))
	return idPrefix + hex.EncodeToString(b)
}

// addrOfFile is the reverse of fileOf.
func addrOfFile(name string) (a transport.Addr, ok bool) {
	text, ok := strings.CutPrefix(name, idPrefix)
	b, err := hex.DecodeString(text)
	if !ok || err != nil || len(b) != 14 {
		return a, false
	}
	binary.BigEndian.PutUint64(a.IP[:], prefix)
	copy(a.IP[8:], b)
	a.Scope = binary.BigEndian.Uint32(b[8:])
	a.Port = uint32(binary.BigEndian.Uint16(b[12:]))
	return a, isAddr(a) && fileOf(a) == name
}

// target is a parsed text: a name, or if that is "" an address.
type target struct {
	name string
	addr transport.Addr
	user uint32 // who has the name, if another was said
	said bool
}

// parse reads "shm:NAME", "NAME", either with "@UID" behind it, or the text of an address.
func parse(text string) (target, error) {
	name := strings.TrimPrefix(text, "shm:")
	name, user, said := strings.Cut(name, "@")
	if validName(name) {
		uid, err := strconv.ParseUint(user, 10, 32)
		if said && (err != nil || strconv.FormatUint(uid, 10) != user || uid == 1<<32-1) {
			return target{}, badAddress(text, "want the number of a user behind '@'")
		}
		return target{name: name, user: uint32(uid), said: said}, nil
	}
	ap, err := netip.ParseAddrPort(name)
	if err != nil || !ap.Addr().Is6() || said {
		return target{}, badAddress(text,
			"want shm:NAME, a name of 1 to 64 letters, digits, '.', '_' and '-'")
	}
	scope, err := strconv.ParseUint(ap.Addr().Zone(), 10, 32)
	a := transport.AddrFrom(ap, uint32(scope))
	if err != nil || !isAddr(a) || a.String() != name {
		return target{}, badAddress(text, "not an address of shared memory")
	}
	return target{addr: a}, nil
}

func validName(s string) bool {
	if len(s) == 0 || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' ||
			c == '_' || c == '-') {
			return false
		}
	}
	return true
}

func badAddress(text, why string) error {
	return fmt.Errorf("shm: %w: %.80q: %s", transport.ErrBadAddress, text, why)
}
