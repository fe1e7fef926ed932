package transport

import "time"

// Path describes the way to one destination, as far as this side knows without sending. Two
// destinations of one transport may differ in all of it.
type Path struct {
	// MTU is the largest packet in bytes, library header included. It is at least 1 and at most
	// Caps.MTU. The path may carry less.
	MTU int
	// HostDelay is by how much the hosts themselves can lengthen a round trip while the
	// network is idle (scheduling, batches, interrupts). Congestion control takes that
	// much for no congestion. 0 for hardware queues that are polled.
	HostDelay time.Duration
	// Shared says that the sender of a packet from there can still change RxPacket.Data, at
	// any time: the memory is shared between processes. A receiver that checks bytes and uses
	// them later copies them first. Packets of up to PrivateBytes are exempt: RxPacket.Shared has
	// it for each packet.
	Shared bool
	// Checksummed says that packets damaged on the way are dropped by the
	// network or the transport with at least the strength of the UDP checksum.
	Checksummed bool
	// Private says that no third party can read, change or forge packets: both ends are
	// processes of one user (or of root) and share memory. It is false for networks.
	Private bool
	// Alone says that small packets do best alone: one costs no more than copying it to others in
	// a larger one. So it is in shared memory.
	Alone bool
	// Local says that both ends are on this machine, and that packets between them meet no network:
	// they wait for processors alone. What a transport does not know for sure is false.
	Local bool
}
