package session

import (
	"errors"
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// Limits of what two sides can agree on.
const (
	MaxSlots   = 128                                       // requests in flight in one session
	MaxCredits = 4096                                      // packets in flight in one session
	MinMTU     = msgbuf.MinDataPerPacket + wire.HeaderSize // bytes; every path must carry it
)

// Defaults (eRPC, section 4.3).
const (
	DefaultSlots   = 8
	DefaultCredits = 32
)

// Errors that end a request or a session.
var (
	ErrRefused       = errors.New("session refused")
	ErrPeerLost      = errors.New("peer lost")
	ErrPeerRestarted = errors.New("peer restarted, outcome unknown")
	ErrClosed        = errors.New("closed")
	ErrTooLarge      = errors.New("message too large")
	ErrExhausted     = errors.New("resource exhausted")
	ErrTimeout       = errors.New("connect timeout")
	ErrBadOffer      = errors.New("offer cannot be met")
	ErrVersion       = errors.New("protocol version not spoken")
	ErrOutOfStep     = errors.New("session out of step, outcome unknown")
	ErrDraining      = errors.New("peer is shutting down, request not sent")
)

// Params holds the values that the two sides of a session agreed on.
type Params struct {
	Slots      int  // requests in flight; a power of two
	Credits    int  // packets in flight
	PerPacket  int  // data bytes in a packet: the MTU less the header
	MaxMessage int  // bytes
	Waiting    int  // requests that may wait at the server without a credit
	Checksum   bool // packets carry a CRC-32C in the token field
	Bundles    bool // both sides take bundles
	Sealed     bool // packets are sealed, see package security
	// Version is the protocol version of all packets; 0 stands for wire.Version.
	Version uint8
}

// ParamsOf turns an offer that was agreed in packets of a version into Params. An offer outside the
// limits gives ErrBadOffer.
func ParamsOf(o wire.Offer, version uint8) (Params, error) {
	p := Params{
		Slots: int(o.Slots), Credits: int(o.Credits), PerPacket: int(o.MTU) - wire.HeaderSize,
		MaxMessage: int(o.MaxMessage), Waiting: int(o.Waiting),
		Checksum: o.Features&wire.FeatureChecksum != 0,
		Bundles:  o.Features&wire.FeatureBundle != 0,
		Sealed:   o.Features&wire.FeatureSeal != 0,
		Version:  version,
	}
	switch {
	case p.Slots < 1 || p.Slots > MaxSlots || p.Slots&(p.Slots-1) != 0,
		p.Credits < 1 || p.Credits > MaxCredits,
		p.PerPacket < msgbuf.MinDataPerPacket || p.PerPacket > 1<<16,
		o.MTU > 1<<17, o.MaxMessage > wire.MaxMsgSize: // not p's: int may have 32 bits
		return Params{}, ErrBadOffer
	}
	return p, nil
}

// Offer returns the offer that both sides agreed on.
func (p *Params) Offer() wire.Offer {
	o := wire.Offer{
		Credits: uint16(p.Credits), Slots: uint16(p.Slots), MTU: uint32(p.PerPacket + wire.HeaderSize),
		MaxMessage: uint32(p.MaxMessage), Waiting: uint16(p.Waiting),
	}
	if p.Checksum {
		o.Features = wire.FeatureChecksum
	}
	if p.Bundles {
		o.Features |= wire.FeatureBundle
	}
	if p.Sealed {
		o.Features |= wire.FeatureSeal
	}
	return o
}

// eitherSide holds the features that are agreed on if one side wants them. All others take two.
const eitherSide = wire.FeatureChecksum

// Agree returns the smaller of two offers, field by field, with slots cut to a
// power of two. Checksums are on if either side wants them.
func Agree(a, b wire.Offer) wire.Offer {
	o := wire.Offer{
		Credits: min(a.Credits, b.Credits), Slots: min(a.Slots, b.Slots), MTU: min(a.MTU, b.MTU),
		MaxMessage: min(a.MaxMessage, b.MaxMessage), Waiting: min(a.Waiting, b.Waiting),
		Features: a.Features&b.Features | (a.Features|b.Features)&eitherSide,
	}
	for o.Slots&(o.Slots-1) != 0 {
		o.Slots &= o.Slots - 1
	}
	return o
}

// maxStride is the most packets that one CR or RFR stands for.
const maxStride = 8

// stride returns how many packets one CR or RFR may stand for. It is well below the
// credits, so that packets are in flight while others gather.
func (p *Params) stride() int { return max(1, min(p.Credits/4, maxStride)) }

// perCut returns how many data bytes a packet has that is counted in a cut; 0 if the session has no
// such packets, since it agreed on smaller ones.
func (p *Params) perCut(cut wire.Cut) int {
	if cut == 0 {
		return p.PerPacket
	}
	if n := wire.CutSizes[cut] - wire.HeaderSize; n < p.PerPacket {
		return n
	}
	return 0
}

// maxPackets returns how many packets a request and its response may take together.
func (p *Params) maxPackets() uint32 {
	if p.Version == wire.OldVersion {
		return wire.OldMaxPackets
	}
	return wire.MaxPackets
}

// echo returns the request type as an answer says it: only in the old version.
func (p *Params) echo(reqType uint8) uint8 {
	if p.Version == wire.OldVersion {
		return reqType
	}
	return 0
}

// packets returns how many packets a message of size bytes takes, with per data bytes in each.
func packets(size, per int) uint32 {
	if size <= per {
		return 1
	}
	return uint32((size + per - 1) / per)
}

// payload returns how many data bytes packet i of a message of size bytes has.
func payload(size, per int, i uint32) int { return min(size-int(i)*per, per) }

// Timing holds the time constants of a session. The zero value of a field means its default.
type Timing struct {
	RTOMin           time.Duration // least retransmission timeout, default 5 ms, the paper's fixed one
	RTOMax           time.Duration // largest, after backoff, default 200 ms
	RTOInitial       time.Duration // before the first RTT sample, default 20 ms
	Heartbeat        time.Duration // between pings without answer, default 500 ms; see PingAfter
	SilenceTimeout   time.Duration // silence of a server that owes answers, default 20 ms
	FailureTimeout   time.Duration // silence before the peer counts as lost, default 3 s
	ConnectTimeout   time.Duration // for the whole handshake, default 3 s
	ConnectRetry     time.Duration // repetition of a handshake packet, at first, default 10 ms
	DisconnectLinger time.Duration // how long a Disconnect is repeated, default 200 ms
}

// ErrTiming is wrapped by the errors of Timing.Fill.
var ErrTiming = errors.New("session: bad timing")

// TimingError says which field of a Timing is wrong. It matches ErrTiming.
type TimingError struct {
	Field  string
	Reason string // value and what it must be
}

// Error implements error.
func (e *TimingError) Error() string { return ErrTiming.Error() + ": " + e.Field + " " + e.Reason }

// Unwrap returns ErrTiming.
func (e *TimingError) Unwrap() error { return ErrTiming }

// Fill returns t with defaults in place of zeros, or a *TimingError for the first field
// that is negative or contradicts another.
func (t Timing) Fill() (Timing, error) {
	for _, f := range []struct {
		v    *time.Duration
		def  time.Duration
		name string
	}{
		{&t.RTOMin, 5 * time.Millisecond, "RTOMin"}, {&t.RTOMax, 200 * time.Millisecond, "RTOMax"},
		{&t.RTOInitial, 20 * time.Millisecond, "RTOInitial"},
		{&t.Heartbeat, 500 * time.Millisecond, "Heartbeat"},
		{&t.SilenceTimeout, 20 * time.Millisecond, "SilenceTimeout"},
		{&t.FailureTimeout, 3 * time.Second, "FailureTimeout"},
		{&t.ConnectTimeout, 3 * time.Second, "ConnectTimeout"},
		{&t.ConnectRetry, 10 * time.Millisecond, "ConnectRetry"},
		{&t.DisconnectLinger, 200 * time.Millisecond, "DisconnectLinger"},
	} {
		if *f.v < 0 {
			return t, &TimingError{f.name, fmt.Sprintf("is %v, must not be negative", *f.v)}
		}
		if *f.v == 0 {
			*f.v = f.def
		}
	}
	if t.RTOMin > t.RTOMax {
		return t, &TimingError{"RTOMin", fmt.Sprintf("is %v, must be at most RTOMax, %v",
			t.RTOMin, t.RTOMax)}
	}
	if t.Heartbeat > t.FailureTimeout {
		return t, &TimingError{"Heartbeat", fmt.Sprintf("is %v, must be at most FailureTimeout, %v",
			t.Heartbeat, t.FailureTimeout)}
	}
	return t, nil
}
