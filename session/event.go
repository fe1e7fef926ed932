package session

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// Arrival describes a received packet beside its bytes.
type Arrival struct {
	// Now is the time.
	Now monotime.Time
	// Unseen is for how long before Now nobody had looked for packets: the packet may have
	// come at any time since. Sessions take it for time spent in the host, not on the path.
	Unseen time.Duration
	// CE says that the network marked the packet "congestion experienced" (RFC 3168).
	CE bool
}

// EventKind says what came about.
type EventKind uint8

// The kinds of events.
const (
	// EventFlush: a packet in Tx may outlive its request, since it was sent before or its
	// request has just ended. The owner sends Tx, flushes the transport and calls Out.Flushed
	// before anything else: later outcomes give the packet's buffer away (eRPC, section 4.2.2).
	EventFlush EventKind = iota + 1
	// EventRequest: with the packet just taken the request in Slot is complete; see
	// Server.Request.
	EventRequest
	// EventProgress: packets of request Ref were answered.
	EventProgress
	// EventDone: the response to request Ref is here: Resp, which the owner must Return.
	EventDone
	// EventError: the server answered request Ref with an error, Fault.
	EventError
	// EventFailed: request Ref ended on this side, with Err.
	EventFailed
	// EventPace: the session has packets that are not due yet. The owner calls Client.Release
	// at Client.PaceAt.
	EventPace
	// EventOpened: requests can be sent and taken.
	EventOpened
	// EventClosed: Close was called, and the outcomes of all requests are before this one.
	EventClosed
	// EventCancelled: the client gave up the request in Slot of session Session, whose handler has
	// not responded yet. Its response is dropped; until then the slot takes no request.
	EventCancelled
	// EventLate: the session has answers that it repeats by itself. The owner calls Server.Repeat
	// in each epoch until there are none.
	EventLate
	// EventBroken: the session cannot go on, for the reason Err. The owner ends it.
	EventBroken
	// EventSent: the first packet of request Ref, which is Marked, was queued to leave.
	EventSent
	// EventAnswered: the first of several response packets of request Ref, which is Marked, is here.
	EventAnswered
	// EventFreed: a slot of session Session is free that a request had held which was given up.
	EventFreed
	// EventSpent: session Session has used up the request numbers of a slot. It takes no new
	// requests, as after Client.Drain.
	EventSpent
)

// Marked is a bit of Op.Ref: the owner gets EventSent and EventAnswered for the request.
const Marked = 1 << 31

// Event is an outcome that a session leaves in an Out. A field that the kind does not name
// is old.
type Event struct {
	Kind    EventKind
	Slot    uint8
	Session uint32         // of what is not about a request: End.Local
	Ref     uint32         // the Op's
	RTT     time.Duration  // EventProgress, EventDone: without the server's hold; 0 if unknown
	Resp    *msgbuf.Buffer // belongs to the library until the owner returns it
	Fault   *wire.Error    // until the next packet is taken; its parts alias the packet
	Err     error
}

// Stats counts protocol events. One Stats serves all sessions of an endpoint.
type Stats struct {
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
