// Package rc joins two machines by the one-sided operations of package onesided, over an RC queue
// pair of an InfiniBand or RoCE adapter: WRITEs and READs of verbs, which the peer's adapter
// carries out.
//
// # Map
//
//	owns       a queue pair and its regions
//	called by  labs/cmd/erpc-rfp and applications
//	never      a peer uses memory after the link's end
//
// # Joining
//
// Both sides have a connection to each other, TCP mostly, over which Join exchanges cards: the
// sizes and rights of all regions, the queue pair, and address and key of each region that the peer
// may use. The connection stays open while the link lives: its end is the peer's. A process that
// can speak over it can name any key, so it should be as private as the memory.
//
// # What the contract needs
//
// An RC queue pair delivers in order, so a READ sees what a WRITE before it wrote, and completions
// come in the order of posting. Adapters make the bytes of a WRITE visible from the lower address
// on, and its last word at once. They do so within a packet, and no standard says it; package rfp
// checks its messages, with a checksum where Config.Checksum says so. Each region is a memory
// region of its own, with the rights of its Spec, so an adapter refuses the operations that Check
// would. A refusal ends the link.
//
// Small WRITEs are inlined. Operations without a completion have one in 32 so that the queue does
// not fill. Each link has a device context, a protection domain and a completion queue of its own.
//
// # An adapter that goes
//
// A link whose adapter is taken away ends with ErrDeviceGone. Drivers that cannot take a device
// from its users wait for them, and send no event; so a link also watches the device's node in
// /dev. Its Close lets the removal go on, and the peer's link ends with onesided.ErrPeer.
package rc
