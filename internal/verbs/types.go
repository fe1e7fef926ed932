package verbs

import (
	"fmt"
	"net/netip"
	"syscall"
)

// MissingError says what this program or machine lacks for verbs.
type MissingError struct {
	What string // what is missing
	Mend string // how to get it
}

// Error implements error.
func (e *MissingError) Error() string { return "verbs: " + e.What + ": " + e.Mend }

// Error is a call of the library that failed.
type Error struct {
	Op  string // the library's function
	Err error  // mostly a syscall.Errno
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.Op, e.Err) }

// Unwrap returns e.Err.
func (e *Error) Unwrap() error { return e.Err }

// failed makes an Error of what the shim returned: 0 or a negative errno.
func failed(op string, code int) error {
	if code >= 0 {
		return nil
	}
	return &Error{Op: op, Err: syscall.Errno(-code)}
}

// DeviceAttr describes a device and its limits.
type DeviceAttr struct {
	VendorID  uint32
	PartID    uint32
	MaxQP     uint32
	MaxWR     uint32 // work requests of a queue
	MaxSGE    uint32
	MaxCQ     uint32
	MaxCQE    uint32
	MaxMR     uint32
	MaxAH     uint32
	Ports     uint32 // ports are numbered from 1
	MaxReads  uint32 // READs a queue pair can have under way towards another (initiator)
	MaxServed uint32 // READs it can serve at a time
}

// SoftVendor is the VendorID of soft-RoCE, which has no hardware (drivers/infiniband/sw/rxe).
const SoftVendor = 0xFFFFFF

// PortState of a port, as in the InfiniBand specification.
type PortState uint32

// PortActive is the one state in which a port carries packets.
const PortActive PortState = 4

// String returns the state's name.
func (s PortState) String() string {
	names := []string{"nop", "down", "init", "armed", "active", "active deferred"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("state %d", uint32(s))
}

// LinkLayer says which kind of link a port has.
type LinkLayer uint32

// Link layers.
const (
	InfiniBand LinkLayer = 1
	Ethernet   LinkLayer = 2 // RoCE
)

// String returns the link layer's name.
func (l LinkLayer) String() string {
	switch l {
	case InfiniBand:
		return "InfiniBand"
	case Ethernet:
		return "Ethernet"
	}
	return "unknown"
}

// PortAttr describes a port.
type PortAttr struct {
	State     PortState
	MaxMTU    uint32 // bytes of payload of a packet, the port's limit
	ActiveMTU uint32 // ... as the link is configured now
	LinkLayer LinkLayer
	GIDs      uint32 // length of the GID table
	PKeys     uint32
	LID       uint32
	Width     uint32 // lanes, encoded
	Speed     uint32 // of a lane, encoded
}

// Rate returns the rate of the link in bits per second, 0 if the encoding is unknown.
func (p PortAttr) Rate() int64 {
	lanes := map[uint32]int64{1: 1, 2: 4, 4: 8, 8: 12, 16: 2}[p.Width]
	lane := map[uint32]int64{1: 2.5e9, 2: 5e9, 4: 10e9, 8: 10e9, 16: 14e9, 32: 25e9, 64: 50e9,
		128: 100e9}[p.Speed]
	return lanes * lane
}

// GID is a global identifier, 16 bytes in network order. Those of RoCE v2 are IP addresses.
type GID [16]byte

// Addr returns g as an IP address; IPv4-mapped ones come back as IPv4.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// Is4 reports whether g is an IPv4-mapped address: received packets then have IPv4 headers.
func (g GID) Is4() bool { return netip.AddrFrom16(g).Is4In6() }

// String returns g like an IP address.
func (g GID) String() string { return g.Addr().String() }

// GIDEntry is one used entry of a port's GID table.
type GIDEntry struct {
	Index int
	GID   GID
	Type  string // "IB/RoCE v1" or "RoCE v2", as the kernel names it; "" if it does not tell
	Iface string // the network interface it belongs to, "" without one
}

// Access to a memory region, as in ibv_reg_mr(3).
type Access uint32

// Access rights. Local reading is always allowed.
const (
	LocalWrite  Access = 1
	RemoteWrite Access = 2
	RemoteRead  Access = 4
)

// QPType is the type of a queue pair.
type QPType uint32

// Types of queue pairs, with the library's values.
const (
	RC QPType = 2
	UC QPType = 3
	UD QPType = 4
)

// Opcode is the operation of a send work request.
type Opcode uint32

// Opcodes, with the library's values.
const (
	OpWrite    Opcode = 0
	OpWriteImm Opcode = 1
	OpSend     Opcode = 2
	OpSendImm  Opcode = 3
	OpRead     Opcode = 4
)

// Flags of a send work request, with the library's values.
const (
	Fence     = 1
	Signaled  = 2
	Solicited = 4
	Inline    = 8
)

// Piece is a piece of registered memory.
type Piece struct {
	Addr uint64
	Len  uint32
	LKey uint32
}

// SendWR is a send work request. All of it is plain numbers.
type SendWR struct {
	ID     uint64
	AH     uint64 // UD: AH.Handle
	Remote uint64 // WRITE and READ: address at the peer
	Pieces [2]Piece
	Opcode Opcode
	Flags  uint32
	Num    uint32 // pieces used
	QPN    uint32 // UD: the peer's queue pair
	QKey   uint32 // UD: its key
	RKey   uint32 // WRITE and READ: key of the peer's memory
	Imm    uint32 // immediate data, host order
	_      uint32
}

// RecvWR is a receive work request with one piece of memory.
type RecvWR struct {
	ID    uint64
	Piece Piece
}

// Opcodes of completions of receive work requests: RecvImm for WRITE_WITH_IMM.
const (
	WCRecv    = 128
	WCRecvImm = 129
)

// Flags of a completion.
const (
	WCGRH     = 1 // the first 40 bytes of the buffer hold a GRH
	WCWithImm = 2
)

// Status codes of a completion that the library's users tell apart.
const (
	StatusOK       = 0
	StatusProtErr  = 4  // memory that is not registered
	StatusFlushed  = 5  // the queue pair is in an error state
	StatusAccess   = 10 // RC: the peer does not allow it
	StatusRetryExc = 12 // RC: the peer does not answer
	StatusRNRExc   = 13 // RC: the peer has no receive request
)

// WC is a completion.
type WC struct {
	ID     uint64
	Status uint32
	Opcode uint32
	Len    uint32 // bytes received; for UD with the 40 bytes in front
	Imm    uint32 // host order
	QPN    uint32 // the queue pair here
	SrcQP  uint32 // UD: the sender's
	Flags  uint32
	SLID   uint32 // InfiniBand: the sender's LID
}

// AHAttr is where an address handle, or a connected queue pair, leads.
type AHAttr struct {
	GID      GID // of the peer
	Flow     uint32
	DLID     uint32 // InfiniBand: LID of the peer
	SGID     uint32 // index of the own GID
	HopLimit uint32
	Class    uint32 // traffic class: the byte with DSCP and ECN
	Port     uint32 // own
	SL       uint32 // service level
	Global   uint32 // 1: with a GRH; always for RoCE
}

// States of a queue pair, with the library's values.
const (
	StateReset = 0
	StateInit  = 1
	StateRTR   = 2
	StateRTS   = 3
	StateSQE   = 5
	StateErr   = 6
)

// QPAttr holds the attributes that QP.Modify sets on the way to State. Which fields count depends
// on type and state as in ibv_modify_qp(3).
type QPAttr struct {
	State    uint32
	From     uint32 // the state before, where it matters: StateSQE for RTS again
	Port     uint32 // Init
	PKey     uint32 // Init: index
	QKey     uint32 // Init, UD
	Access   Access // Init, UC and RC: what peers may do
	MTU      uint32 // RTR, UC and RC: bytes
	DestQPN  uint32 // RTR, UC and RC
	RQPSN    uint32 // RTR, UC and RC
	MaxServe uint32 // RTR, RC: READs served at a time
	MinRNR   uint32 // RTR, RC: encoded
	SQPSN    uint32 // RTS
	MaxReads uint32 // RTS, RC
	Timeout  uint32 // RTS, RC: 4.096 us << Timeout
	Retry    uint32 // RTS, RC
	RNRRetry uint32 // RTS, RC: 7 means for ever
	AH       AHAttr // RTR, UC and RC
}

// Event is an asynchronous event of a device.
type Event struct {
	Code uint32
	Name string
	Port uint32 // for events of a port
}

// Codes of events that matter to users.
const (
	EventQPFatal     = 1
	EventDeviceFatal = 8
	EventPortActive  = 9
	EventPortErr     = 10
	EventGIDChange   = 18
)
