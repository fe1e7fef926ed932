package rawudp

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// MAC is an Ethernet address.
type MAC [6]byte

// String returns the address as text, "02:00:00:00:00:01".
func (m MAC) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

// Link is the state of a network interface at some time.
type Link struct {
	Name  string
	Index int // the kernel's number; 0: there is no such interface now
	MAC   MAC
	MTU   int  // bytes of an IP packet
	Up    bool // administratively up, and has a carrier
}

// Network describes the surroundings of a device to its Conn.
type Network interface {
	// Link returns the state of the link, as of the last Poll.
	Link() Link

	// NextHop returns the IP address of the neighbour that packets to ip are sent to,
	// ip itself or a gateway. Errors are a *NeighbourError or the system's. It does not wait.
	NextHop(ip netip.Addr) (netip.Addr, error)

	// Neighbour returns the MAC address of a neighbour. If it is not known yet the
	// kernel is asked to find it, and the error matches ErrPending; Poll tells the
	// answer. Otherwise as NextHop. It does not wait.
	Neighbour(hop netip.Addr) (MAC, error)

	// Await is NextHop and Neighbour together, and waits until the kernel has an
	// answer, at most for timeout. Safe from any goroutine.
	Await(ip netip.Addr, timeout time.Duration) (MAC, error)

	// Confirm tells the kernel that a neighbour is in use, so that it checks now and
	// then that the neighbour is still there. It does not wait.
	Confirm(hop netip.Addr)

	// FD is readable when Poll has something to tell.
	FD() int

	// Poll reads changes without waiting: it calls neighbour for each neighbour that
	// changed, found or lost, and reports whether routes or the link changed.
	Poll(neighbour func(hop netip.Addr, mac MAC, found bool)) (routes, link bool)

	// Close frees everything. An Await under way returns transport.ErrClosed.
	Close() error
}

// Errors of links and neighbours. They are wrapped in typed errors that say which.
var (
	// ErrLinkDown means that the link is down: it may come up again.
	ErrLinkDown = errors.New("link is down")
	// ErrLinkGone means that the link does not exist any more.
	ErrLinkGone = errors.New("link is gone")
	// ErrNoLink means that there is no interface of this name or address.
	ErrNoLink = errors.New("no such interface")
	// ErrNotEthernet means that the interface does not carry Ethernet frames.
	ErrNotEthernet = errors.New("not an Ethernet interface")
	// ErrNoAddress means that the interface has no IP address that fits.
	ErrNoAddress = errors.New("interface has no such IP address")
	// ErrNoNeighbour means that nobody on the link answers for an IP address.
	ErrNoNeighbour = errors.New("no neighbour answers")
	// ErrNoRoute means that the way to an IP address does not lead over the link.
	ErrNoRoute = errors.New("no route over this link")
	// ErrPending means that the kernel is still looking for a neighbour.
	ErrPending = errors.New("neighbour not known yet")
)

// LinkError says what is wrong with a link.
type LinkError struct {
	Link string // name of the interface
	Err  error  // ErrLinkDown, ErrLinkGone, ErrNoLink, ErrNotEthernet, ErrNoAddress, or the system's
}

// Error implements error.
func (e *LinkError) Error() string { return fmt.Sprintf("rawudp: %s: %v", e.Link, e.Err) }

// Unwrap returns e.Err.
func (e *LinkError) Unwrap() error { return e.Err }

// NeighbourError says why frames to an IP address cannot be sent.
type NeighbourError struct {
	Link string     // name of the interface
	IP   netip.Addr // whom the frames are for
	Err  error      // ErrNoNeighbour, ErrNoRoute, ErrPending, or the system's
}

// Error implements error.
func (e *NeighbourError) Error() string {
	return fmt.Sprintf("rawudp: %v over %s: %v", e.IP, e.Link, e.Err)
}

// Unwrap returns e.Err.
func (e *NeighbourError) Unwrap() error { return e.Err }

// PrivilegeError says which right the process lacks, and for what.
type PrivilegeError struct {
	Need string // "CAP_NET_RAW"
	For  string // "packet socket"
	Err  error  // the system's
}

// Error implements error.
func (e *PrivilegeError) Error() string {
	return fmt.Sprintf("rawudp: %s needs %s: %v", e.For, e.Need, e.Err)
}

// Unwrap returns e.Err.
func (e *PrivilegeError) Unwrap() error { return e.Err }

// badAddress matches transport.ErrBadAddress.
func badAddress(text, why string) error {
	return fmt.Errorf("rawudp: %w: %.100q: %s", transport.ErrBadAddress, text, why)
}
