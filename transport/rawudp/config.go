package rawudp

import "time"

// Defaults and limits of Config.
const (
	// DefaultMTU is the largest packet in bytes where the link takes larger ones: it fits
	// a jumbo frame of 9000 bytes over IPv6, as in package udp.
	DefaultMTU = 8952
	// MinMTU is the smallest MTU of a Conn.
	MinMTU = 64

	defaultGrace     = 3 * time.Second
	defaultNeighbour = 3 * time.Second
)

// Config describes a Conn. The zero Config is a good one.
type Config struct {
	// MTU is the largest packet in bytes of UDP payload, both ways. 0 means as much as
	// the link carries, up to DefaultMTU. It is never more than the link carries.
	MTU int
	// LinkGrace is how long the link may be down before calls return a *LinkError. Until
	// then packets are dropped. 0 means 3 s; negative, at once.
	LinkGrace time.Duration
	// NeighbourTimeout is how long Resolve waits for a neighbour to answer. 0 means 3 s.
	NeighbourTimeout time.Duration
}
