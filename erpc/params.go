package erpc

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/wire"
)

// Limits of requests and sessions.
const (
	MaxReqType      = 254       // largest request type
	MaxErrorText    = 512       // bytes of an error's text
	MaxErrorDetails = 480       // bytes of an error's details
	MaxSlots        = 128       // requests in flight in one session
	MaxCredits      = 4096      // packets in flight in one session
	MinMTU          = 1024      // bytes of a packet that every path carries
	MaxMessage      = 1<<28 - 1 // bytes that Config.MaxMessage can be
)

// The limits are those of the packages below. A difference does not compile.
const (
	_ = uint(-(MaxReqType ^ wire.MaxReqType | MaxErrorText ^ wire.MaxErrorText))
	_ = uint(-(MaxErrorDetails ^ wire.MaxErrorDetails))
	_ = uint(-(MaxMessage ^ wire.MaxMsgSize | MinMTU ^ session.MinMTU))
	_ = uint(-(MaxSlots ^ session.MaxSlots | MaxCredits ^ session.MaxCredits))
)

// Reason says why the library answered a request with an error, in place of its handler or beside
// it.
type Reason uint8

// The reasons.
const (
	ReasonNone        Reason = iota // of an error that was not received
	ReasonNoHandler                 // no handler for this request type
	ReasonTooLarge                  // the message is larger than the receiver takes
	ReasonExhausted                 // out of sessions, buffers or workers
	ReasonShutdown                  // the receiver is closing
	ReasonApplication               // the handler returned an error; its text follows
	ReasonBadOffer                  // the client's offer for a session cannot be met
	ReasonPanic                     // the handler panicked
	ReasonCancelled                 // the client gave the request up
	ReasonDeadline                  // the request's time passed at the server
	ReasonForgotten                 // the handler ran, and its response is not kept any more
	ReasonInsecure                  // one side demands security, and the other one has none
	ReasonDenied                    // the peer's identity was not proved, or is not welcome
	ReasonNoKeys                    // the peer has lost the keys
)

// String returns the reason's name.
func (r Reason) String() string { return r.wire().String() }

func (r Reason) wire() wire.Code { return wire.Code(r) }

// Code is a gRPC status code (grpc.io, "Status codes and their use in gRPC").
type Code uint8

// The codes.
const (
	CodeOK Code = iota // of no error
	CodeCancelled
	CodeUnknown
	CodeInvalidArgument
	CodeDeadlineExceeded
	CodeNotFound
	CodeAlreadyExists
	CodePermissionDenied
	CodeResourceExhausted
	CodeFailedPrecondition
	CodeAborted
	CodeOutOfRange
	CodeUnimplemented
	CodeInternal
	CodeUnavailable
	CodeDataLoss
	CodeUnauthenticated
)

// String returns the name that gRPC uses.
func (c Code) String() string { return c.wire().String() }

func (c Code) wire() wire.Status { return wire.Status(c) }

// Time is a point on the clock of an Rpc, in nanoseconds since an arbitrary start.
type Time = monotime.Time

// Params holds what the two sides of a session agreed on.
type Params struct {
	Slots      int  // requests in flight; a power of two
	Credits    int  // packets in flight
	PerPacket  int  // data bytes in a packet: the MTU less the header
	MaxMessage int  // bytes
	Waiting    int  // requests that may wait at the server without a credit
	Checksum   bool // packets carry a CRC-32C
	Bundles    bool // small packets share datagrams
	Sealed     bool // packets are encrypted; see Config.TLS
	// Version is the protocol version of the packets: 3, or 2 with a peer of an earlier release.
	Version uint8
}

// Timing holds the time constants of sessions. The zero value of a field means its default.
//
// A client pings a peer that was silent for FailureTimeout less three Heartbeats, one Heartbeat at
// least and three at most: 1.5 s by default. A server does so a Heartbeat later. So three pings go
// unanswered before the peer counts as lost, and an idle one costs little.
type Timing struct {
	RTOMin           time.Duration // least retransmission timeout, default 5 ms, the paper's fixed one
	RTOMax           time.Duration // largest, after backoff, default 200 ms
	RTOInitial       time.Duration // before the first RTT sample, default 20 ms
	Heartbeat        time.Duration // between pings without answer, default 500 ms; see below
	FailureTimeout   time.Duration // silence before the peer counts as lost, default 3 s
	ConnectTimeout   time.Duration // for the handshake, and a Client's lookup before; default 3 s
	ConnectRetry     time.Duration // repetition of a handshake packet, at first, default 10 ms
	DisconnectLinger time.Duration // how long a Disconnect is repeated, default 200 ms
}

// ProtocolStats counts protocol events of all sessions of an Rpc.
type ProtocolStats struct {
	Retransmits   uint64 // packets sent again, by client and server
	Rollbacks     uint64 // go-back-N rollbacks after a timeout
	FastRollbacks uint64 // ... on evidence of loss
	FastResends   uint64 // of Retransmits: by a client, after a FastRollback
	Reanswers     uint64 // of Retransmits: by a server, asked for by repeated packets
	Gaps          uint64 // by a server: gaps told to the client
	Waits         uint64 // by a server: clients told that a handler waits
	Pasts         uint64 // by a server: clients told that a number has passed
	Cancels       uint64 // by a server: requests given up by clients
	Lates         uint64 // by a server: answers repeated until they are acknowledged
	Recounts      uint64 // messages counted anew in smaller packets
	CreditStalls  uint64 // times a slot had to wait for credits
	PaceStalls    uint64 // times a session had to wait for its rate
	RateUpdates   uint64 // answers that went to congestion control
	DropPast      uint64 // packet of an earlier request or an earlier packet number
	DropFuture    uint64 // packet ahead of the expected one
	DropUnsent    uint64 // answer to a packet that was not sent, or is rolled back
	DropBusy      uint64 // new request for a slot whose handler still runs
	DropRepeat    uint64 // repeated too often to be answered again
	DropSize      uint64 // sizes that contradict each other

	NoMemory       uint64 // by a server: requests and responses that memory was refused to
	StaleRequests  uint64 // ... unfinished requests that stood still too long
	StaleResponses uint64 // ... responses given up that nobody had asked for in a while
}
