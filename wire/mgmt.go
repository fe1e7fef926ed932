package wire

import (
	"encoding/binary"
)

// Op says what a management packet is. It travels in the header's reqtype field.
type Op uint8

// The management operations. C is the side that opens the session, S the other.
const (
	OpConnect       Op = 1  // C to S: open a session; the first one carries no cookie
	OpChallenge     Op = 2  // S to C: repeat your Connect with this cookie
	OpAccept        Op = 3  // S to C: the session is open
	OpRefuse        Op = 4  // S to C: no session, and why
	OpDisconnect    Op = 5  // either: the session ends
	OpDisconnectAck Op = 6  // answer to Disconnect
	OpPing          Op = 7  // either: are you there?
	OpPong          Op = 8  // answer to Ping
	OpReset         Op = 9  // answer to Ping: I do not know this session
	OpMoved         Op = 10 // answer to Ping: I know this session under another address of yours
	OpDrain         Op = 11 // S to C: I am shutting down, send no new requests
	OpDrainAck      Op = 12 // answer to Drain
	OpCrypto        Op = 13 // either: more of the handshake that makes keys
	OpOpen          Op = 14 // C to S, sealed: open a session; a Connect's body without a cookie
	OpNoKeys        Op = 15 // either: a sealed datagram has an index that is not known here
	numOps             = 16
)

// String returns the operation's name.
func (o Op) String() string {
	if o > 0 && o < numOps {
		return [numOps]string{"", "CONNECT", "CHALLENGE", "ACCEPT", "REFUSE", "DISCONNECT",
			"DISCONNECTACK", "PING", "PONG", "RESET", "MOVED", "DRAIN",
			"DRAINACK", "CRYPTO", "OPEN", "NOKEYS"}[o]
	}
	return "INVALID"
}

// CookieSize is the size of an address-validation cookie in bytes.
const CookieSize = 16

// CookieLoop is where in a Connect, counted from the packet's start, a server with several loops
// finds the loop that its cookie names. Clients and other servers know nothing of it.
const CookieLoop = HeaderSize + 48 + CookieLoopAt

// CookieLoopAt is the same place in the cookie.
const CookieLoopAt = 1

// Least sizes of the management bodies in bytes. A body may be longer: extensions follow in a
// Connect and an Accept, see [Extensions]; what follows in others is skipped.
const (
	ConnectSize   = 64
	ChallengeSize = 24
	AcceptSize    = 48
	RefuseSize    = 16
	AliveSize     = 24
	CryptoSize    = 16
	NoKeysSize    = QuoteSize
)

// bodySize is the least size of the body of each operation.
var bodySize = [numOps]int{
	OpConnect: ConnectSize, OpChallenge: ChallengeSize, OpAccept: AcceptSize, OpRefuse: RefuseSize,
	OpDisconnect: AliveSize, OpDisconnectAck: AliveSize, OpPing: AliveSize, OpPong: AliveSize,
	OpReset: AliveSize,
	OpMoved: AliveSize, OpDrain: AliveSize, OpDrainAck: AliveSize, OpCrypto: CryptoSize,
	OpOpen: ConnectSize, OpNoKeys: NoKeysSize,
}

// checkMgmt holds the rules of management packets. The packet may be longer than
// its body: padding probes the path MTU.
func (h *Header) checkMgmt(payload int) error {
	if h.ReqType == 0 || h.ReqType >= numOps {
		return ErrReqType
	}
	if h.Flags != 0 {
		return ErrFlags
	}
	if int(h.MsgSize) < bodySize[h.ReqType] || payload < int(h.MsgSize) {
		return ErrSize
	}
	if h.Session&NoSession == NoSession {
		h.Session = NoSession // the bits above may ask for a loop
	} else if h.Session&KeyPhase != 0 {
		return ErrSession
	}
	return nil
}

// Features name what a side of a session can do, or what both agreed on. An unknown bit in an
// offer is not agreed on; one in an agreement makes it bad.
type Features uint32

// The features.
const (
	// FeatureChecksum: every packet carries a CRC-32C. One side that asks for it is enough.
	FeatureChecksum Features = 1 << 0
	// FeatureBundle: the side takes bundles, see [Bundle]; both must.
	FeatureBundle Features = 1 << 1
	// FeatureSeal: the packets of the session are sealed, see package security; both must.
	FeatureSeal Features = 1 << 2
)

// Offer holds the values of one session that a side proposes, or that both agreed on.
type Offer struct {
	Credits    uint16 // packets in flight
	Slots      uint16 // requests in flight
	MTU        uint32 // bytes of one packet, header included
	MaxMessage uint32 // bytes
	Waiting    uint16 // requests that may wait at the server without a credit
	Features   Features
}

const offerSize = 24

// put writes an offer.
//
//	0 maxmessage u32 · 4 credits u16 · 6 slots u16 · 8 features u32 · 12 waiting u16
//	14 zero u16 · 16 mtu u32 · 20 zero u32
func (o *Offer) put(b []byte) {
	_ = b[offerSize-1]
	binary.LittleEndian.PutUint32(b[0:], o.MaxMessage)
	binary.LittleEndian.PutUint16(b[4:], o.Credits)
	binary.LittleEndian.PutUint16(b[6:], o.Slots)
	binary.LittleEndian.PutUint32(b[8:], uint32(o.Features))
	binary.LittleEndian.PutUint32(b[12:], uint32(o.Waiting))
	binary.LittleEndian.PutUint32(b[16:], o.MTU)
	binary.LittleEndian.PutUint32(b[20:], 0)
}

func (o *Offer) parse(b []byte) {
	_ = b[offerSize-1]
	o.MaxMessage = binary.LittleEndian.Uint32(b[0:])
	o.Credits = binary.LittleEndian.Uint16(b[4:])
	o.Slots = binary.LittleEndian.Uint16(b[6:])
	o.Features = Features(binary.LittleEndian.Uint32(b[8:]))
	o.Waiting = binary.LittleEndian.Uint16(b[12:])
	o.MTU = binary.LittleEndian.Uint32(b[16:])
}

// Connect is the body of OpConnect.
//
//	0 nonce u64 · 8 epoch u64 · 16 session u32 · 20 token u32 · 24 offer 24 B · 48 cookie 16 B
type Connect struct {
	Nonce   uint64 // random, names this attempt to connect
	Epoch   uint64 // random, names this incarnation of the sender's endpoint
	Session uint32 // the sender's session number
	Token   uint32 // the token that packets to the sender's session must carry
	Offer   Offer
	Cookie  [CookieSize]byte // all zero in the first Connect
}

// Put writes the body to b, which holds at least ConnectSize bytes.
func (c *Connect) Put(b []byte) {
	p := b[:ConnectSize]
	binary.LittleEndian.PutUint64(p[0:], c.Nonce)
	binary.LittleEndian.PutUint64(p[8:], c.Epoch)
	binary.LittleEndian.PutUint32(p[16:], c.Session)
	binary.LittleEndian.PutUint32(p[20:], c.Token)
	c.Offer.put(p[24:])
	copy(p[48:64], c.Cookie[:])
}

// Parse reads the body from b, which holds at least ConnectSize bytes.
func (c *Connect) Parse(b []byte) {
	p := b[:ConnectSize]
	c.Nonce = binary.LittleEndian.Uint64(p[0:])
	c.Epoch = binary.LittleEndian.Uint64(p[8:])
	c.Session = binary.LittleEndian.Uint32(p[16:])
	c.Token = binary.LittleEndian.Uint32(p[20:])
	c.Offer.parse(p[24:])
	copy(c.Cookie[:], p[48:64])
}

// Challenge is the body of OpChallenge.
//
//	0 nonce u64 · 8 cookie 16 B
type Challenge struct {
	Nonce  uint64 // of the Connect it answers
	Cookie [CookieSize]byte
}

// Put writes the body to b, which holds at least ChallengeSize bytes.
func (c *Challenge) Put(b []byte) {
	p := b[:ChallengeSize]
	binary.LittleEndian.PutUint64(p[0:], c.Nonce)
	copy(p[8:], c.Cookie[:])
}

// Parse reads the body from b, which holds at least ChallengeSize bytes.
func (c *Challenge) Parse(b []byte) {
	p := b[:ChallengeSize]
	c.Nonce = binary.LittleEndian.Uint64(p[0:])
	copy(c.Cookie[:], p[8:])
}

// Accept is the body of OpAccept.
//
//	0 nonce u64 · 8 epoch u64 · 16 session u32 · 20 token u32 · 24 offer 24 B
type Accept struct {
	Nonce   uint64 // of the Connect it answers
	Epoch   uint64 // names this incarnation of the sender's endpoint
	Session uint32 // the sender's session number
	Token   uint32 // the token that packets to the sender's session must carry
	Offer   Offer  // what is agreed: never more than was offered
}

// Put writes the body to b, which holds at least AcceptSize bytes.
func (a *Accept) Put(b []byte) {
	p := b[:AcceptSize]
	binary.LittleEndian.PutUint64(p[0:], a.Nonce)
	binary.LittleEndian.PutUint64(p[8:], a.Epoch)
	binary.LittleEndian.PutUint32(p[16:], a.Session)
	binary.LittleEndian.PutUint32(p[20:], a.Token)
	a.Offer.put(p[24:])
}

// Parse reads the body from b, which holds at least AcceptSize bytes.
func (a *Accept) Parse(b []byte) {
	p := b[:AcceptSize]
	a.Nonce = binary.LittleEndian.Uint64(p[0:])
	a.Epoch = binary.LittleEndian.Uint64(p[8:])
	a.Session = binary.LittleEndian.Uint32(p[16:])
	a.Token = binary.LittleEndian.Uint32(p[20:])
	a.Offer.parse(p[24:])
}

// Refuse is the body of OpRefuse.
//
//	0 nonce u64 · 8 code u8 · 9 zero 7 B
type Refuse struct {
	Nonce uint64 // of the Connect it answers
	Code  Code
}

// Put writes the body to b, which holds at least RefuseSize bytes.
func (r *Refuse) Put(b []byte) {
	p := b[:RefuseSize]
	binary.LittleEndian.PutUint64(p[0:], r.Nonce)
	clear(p[8:])
	p[8] = byte(r.Code)
}

// Parse reads the body from b, which holds at least RefuseSize bytes.
func (r *Refuse) Parse(b []byte) {
	p := b[:RefuseSize]
	r.Nonce = binary.LittleEndian.Uint64(p[0:])
	r.Code = Code(p[8])
}

// Alive is the body of Disconnect, Ping, Drain and their answers, and of Reset and Moved. It says
// where an answer goes, so that a side that does not know the session can answer;
// and it repeats the token that the packet is sealed with, so that such a side can
// tell a damaged packet, whose session number may be wrong, from a stranger's.
//
//	0 session u32 · 4 token u32 · 8 seq u64 · 16 to u32 · 20 zero 4 B
//
// Behind a server's Disconnect and Drain [ExtTaken] may follow; all else there is ignored.
type Alive struct {
	// Session is the sender's session number, NoSession in an answer; in a Disconnect NoSession says
	// that the sender's endpoint ends and hears no answer.
	Session uint32
	Token   uint32 // the token that packets to the sender's session must carry
	Seq     uint64 // chosen by the asking side, repeated in the answer
	To      uint32 // the receiver's token: what OpenMgmt gives if the packet is whole
}

// Put writes the body to b, which holds at least AliveSize bytes.
func (a *Alive) Put(b []byte) {
	p := b[:AliveSize]
	binary.LittleEndian.PutUint32(p[0:], a.Session)
	binary.LittleEndian.PutUint32(p[4:], a.Token)
	binary.LittleEndian.PutUint64(p[8:], a.Seq)
	binary.LittleEndian.PutUint32(p[16:], a.To)
	clear(p[20:])
}

// Parse reads the body from b, which holds at least AliveSize bytes.
func (a *Alive) Parse(b []byte) {
	p := b[:AliveSize]
	a.Session = binary.LittleEndian.Uint32(p[0:])
	a.Token = binary.LittleEndian.Uint32(p[4:])
	a.Seq = binary.LittleEndian.Uint64(p[8:])
	a.To = binary.LittleEndian.Uint32(p[16:])
}

// Fixed returns the two parts of the body of a Connect that are the same in both Connects of an
// attempt: all but the MTU, which the dialer may lower, the cookie, and what is padding. Body is
// whole: it ends where the header's msgsize says.
func Fixed(body []byte) (head, tail []byte) { return body[:40], body[ConnectSize:] }

// SealMgmt finishes a management packet: pkt holds the header and the body (and
// padding); token is the receiver's, zero when the sender knows none.
func SealMgmt(pkt []byte, token uint32) { SetToken(pkt, token^Checksum(pkt, nil)) }

// OpenMgmt returns the token that the sender of a management packet meant, or a
// random-looking number if the packet was damaged on its way.
func OpenMgmt(pkt []byte) uint32 { return Token(pkt) ^ Checksum(pkt, nil) }
