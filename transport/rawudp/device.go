package rawudp

// NoVLAN is RxFrame.VLAN of a frame from which the device took no tag.
const NoVLAN = -1

// Checksum is a device's knowledge about the UDP checksum of a received frame.
type Checksum uint8

const (
	// ChecksumUnknown means that nobody looked: the codec adds it up.
	ChecksumUnknown Checksum = iota
	// ChecksumGood means that the hardware or the kernel found it right.
	ChecksumGood
	// ChecksumPartial means that the sender's machine left it to hardware that the
	// frame never met: the field holds the sum of the pseudo header only, and the
	// frame never left a machine's memory.
	ChecksumPartial
)

// RxFrame is a received frame. Data belongs to the device.
type RxFrame struct {
	Data     []byte   // from the destination MAC address on, without the FCS
	Segment  int      // UDP payload bytes of each packet of a train but the last; 0: one packet
	VLAN     int      // the 802.1Q tag control information that the device took out, or NoVLAN
	Checksum Checksum // of UDP
}

// TxFrame is a frame to send. The device lends Mem; the Conn fills in the rest.
type TxFrame struct {
	Mem     []byte   // the device's memory for the frame; at least DeviceCaps.FrameSize bytes
	Len     int      // bytes of Mem that belong to the frame, from its start
	Pieces  [][]byte // the rest of the frame, at most DeviceCaps.Gather pieces; see Device.Send
	Header  int      // bytes of all headers, UDP's included
	L4      int      // offset of the UDP header
	Segment int      // as in RxFrame
	Partial bool     // the device completes the UDP checksum, which has the pseudo header's sum
	Refused bool     // set by Send: this frame can never be sent
}

// DeviceCaps says what a device can do. It does not change.
type DeviceCaps struct {
	Name      string // short name of the transport, "afpacket"
	FrameSize int    // largest frame in bytes, without FCS; trains may be longer
	TrainSize int    // largest train in bytes, if Segments > 1
	RxRing    int    // frames that can wait to be received
	Segments  int    // most packets in a train; 1: no trains
	Gather    int    // most pieces of a frame outside Mem; 0: all in Mem
	Checksum  bool   // the device completes UDP checksums of sent frames
	TxCopies  bool   // Pieces are free when Send returns, not only after Flush
}

// DeviceStats counts what a device did.
type DeviceStats struct {
	TxCalls   uint64 // system calls or doorbells
	RxCalls   uint64 // polls of the ring
	RxDropped uint64 // frames lost in a full ring, as far as known
}

// Device moves frames between a Conn and a link: bursts out, bursts in. All methods
// but Close are only for the goroutine that uses the Conn, and allocate nothing.
//
// Sending has two steps so that a device can lend memory that the hardware reads:
// Reserve lends frames, the Conn fills in some, Send sends the first of them. A device
// that maps a ring (AF_XDP) lends chunks of it; one that hands frames to a system call
// lends a staging area, and may say with Gather that it also sends bytes from elsewhere.
//
// Received frames are lent, too: all frames of a Receive stay valid until the next.
type Device interface {
	// Caps returns what the device can do.
	Caps() DeviceCaps

	// Reserve lends up to n frames to fill in; fewer if the device is short of
	// memory, and none if it can take no frame now. It ends the loan before, and may collect what
	// the hardware has sent. Only Mem is set; Pieces is empty and has room for Gather.
	Reserve(n int) []TxFrame

	// Send sends the first n frames of the last Reserve, in order, and returns how many
	// it is done with. Frames with Refused set are done with but not sent. Fewer than
	// n mean that the device takes no more now. Errors are ErrLinkDown, ErrLinkGone,
	// or that the device itself is unusable; frames not done with are not sent.
	Send(n int) (int, error)

	// Flush returns when the device refers to no memory in Pieces any more.
	Flush()

	// Receive returns up to len(frames) received frames without waiting. It ends the
	// validity of the frames of the call before. The receiver may write to them.
	// Errors as Send.
	Receive(frames []RxFrame) (int, error)

	// Pending reports whether Receive would return a frame. It leaves the frames
	// of the last Receive valid.
	Pending() bool

	// FD is a descriptor that is readable when a frame has arrived that Receive has
	// not returned yet, or the device has an error to report. It stays the same until Close.
	// It may be silent until Pending has returned false, and again from the next Receive on.
	FD() int

	// Fault reads and clears an error that made FD readable: nil if there is none.
	// Errors as Send.
	Fault() error

	// Attach moves the device to another link, or to the same one once it is back. The
	// frames of the last Receive stay valid.
	Attach(l Link) error

	// Stats returns counters since the start; after Close the last ones.
	Stats() DeviceStats

	// Close frees everything. It is called once, while nobody is in another method.
	// Memory of received frames may go.
	Close() error
}
