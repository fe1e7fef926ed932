package layer

import (
	"time"

	"github.com/userspace-rpc/erpc/wire"
)

// tries is how many values a try has in a packet.
const tries = 64

// HoldKind says what the hold field of a packet means.
type HoldKind uint8

// The kinds. See the documentation of package wire.
const (
	HoldNone HoldKind = iota // management packets and ACKs: nothing
	// REQ, RFR, PAST, CANCEL: a try; in request packet 0 see Remaining, in a PAST wire.SlotBusy
	HoldTry
	HoldCoarse // CR, WAIT, RESP from 1 on: a try, and a time in units of 1.024 us
	HoldFine   // response packet 0 and ERR: a time in units of 64 ns
	// HoldUnclear: a response of several packets to a request of several packets. Which
	// packet of the response this is depends on the request, which this packet does not tell.
	HoldUnclear
)

// HoldKind tells how to read the field Hold.
func (e *ERPC) HoldKind() HoldKind {
	switch e.Type {
	case wire.TypeReq, wire.TypeRFR, wire.TypePast, wire.TypeCancel:
		return HoldTry
	case wire.TypeCR, wire.TypeWait:
		return HoldCoarse
	case wire.TypeErr:
		return HoldFine
	case wire.TypeResp:
		// Client packet 0 asks for no other response packet than 0, and a packet that
		// holds the whole response is its only one.
		if e.PktNum == 0 || len(e.Payload) == int(e.MsgSize) {
			return HoldFine
		}
		return HoldUnclear
	}
	return HoldNone
}

// Try returns how often the client had gone back, in a CANCEL how often it had sent it, mod 64;
// false if the packet has no try, or it cannot be told.
func (e *ERPC) Try() (try int, ok bool) {
	switch e.HoldKind() {
	case HoldTry, HoldCoarse:
		return int(e.Hold) % tries, true
	}
	return 0, false
}

// HoldTime returns the time for which the server held the request; false if the packet
// does not tell, because it has no such field (see HoldKind) or the time did not fit.
func (e *ERPC) HoldTime() (d time.Duration, known bool) {
	switch e.HoldKind() {
	case HoldCoarse:
		return wire.CoarseHold(e.Hold)
	case HoldFine:
		return time.Duration(e.Hold) * wire.HoldUnit, e.Hold != wire.HoldUnknown
	}
	return 0, false
}

// Remaining returns the time that was left until the client would give its request up; false if
// the packet does not tell: only request packet 0 does, of a request with a deadline.
func (e *ERPC) Remaining() (left time.Duration, ok bool) {
	if e.Type != wire.TypeReq || e.PktNum != 0 {
		return 0, false
	}
	return wire.Remaining(e.Hold)
}
