package wire

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/bits"
	"time"
)

// Sizes and limits of the header fields.
const (
	// HeaderSize is the size of the packet header in bytes.
	HeaderSize = 24
	// Version is the newest protocol version, with which a client begins.
	Version = 3
	// OldVersion is the version before. It is spoken in the clear, and its packets are never sealed.
	OldVersion = 2
	// MaxMsgSize is the largest message size in bytes that the header can express.
	MaxMsgSize = 1<<28 - 1
	// MaxReqNum is the largest request number.
	MaxReqNum = 1<<pktShift - 1
	// MaxPackets is the largest number of packets that one request and its
	// response may take together (packet numbers are 20 bits wide).
	MaxPackets = 1 << (64 - pktShift)
	// OldMaxReqNum and OldMaxPackets are the same in OldVersion, whose packet numbers have 16 bits.
	OldMaxReqNum  = 1<<oldPktShift - 1
	OldMaxPackets = 1 << (64 - oldPktShift)
	// NoSession in the low 24 bits of the session field means that the sender knows no session
	// of the receiver. Only management packets carry it.
	NoSession = 1<<24 - 1
	// MaxLoop is the largest number of a loop; the first one has number 1.
	MaxLoop = 1<<7 - 1
	// KeyPhase is the highest bit of the session field. It is reserved: a receiver refuses it.
	KeyPhase = 1 << 31
	// MaxReqType is the largest request type an application may use.
	MaxReqType = 254
	// HoldUnit is the unit of the hold field in nanoseconds.
	HoldUnit = 64
	// HoldUnknown is the value of the hold field for "longer than the field can say".
	HoldUnknown = 0xFFFF

	pktShift    = 44 // place of the packet number in the last word of a header
	oldPktShift = 48 // ... in OldVersion
)

// Type is a packet type (eRPC, section 5.1).
type Type uint8

// The packet types.
const (
	TypeReq  Type = 0 // request data, client to server
	TypeRFR  Type = 1 // request for response, client to server
	TypeCR   Type = 2 // explicit credit return, server to client
	TypeResp Type = 3 // response data, server to client
	TypeMgmt Type = 4 // connection management, either way

	// The rest is not in the paper.
	TypeErr    Type = 5 // an error in place of a response, server to client
	TypeWait   Type = 6 // the request's handler waits, server to client
	TypePast   Type = 7 // the slot is past the request, server to client
	TypeCancel Type = 8 // the client gave the request up, client to server
	TypeAck    Type = 9 // a late answer, or all of a large one, has come, client to server
	numTypes        = 10

	// TypeBundle is no packet's type: several packets follow its header, see [Bundle].
	TypeBundle Type = 10
	// TypeSealed is no packet's type: a packet or a bundle is sealed inside, see [AppendSealed].
	TypeSealed Type = 11
)

// String returns the name that the paper uses, if the type is of the paper.
func (t Type) String() string {
	if t <= TypeSealed {
		return [TypeSealed + 1]string{"REQ", "RFR", "CR", "RESP", "MGMT", "ERR", "WAIT", "PAST",
			"CANCEL", "ACK", "BUNDLE", "SEALED"}[t]
	}
	return "INVALID"
}

// Flags are the four flag bits of the header.
type Flags uint8

// The flags. A packet type has only those that name it; its other bits must be zero. The second
// bit means something else in each type; the upper two are the cut, see [Cut].
const (
	// FlagCE echoes a congestion-experienced mark (RFC 3168) that the packet
	// being answered carried when it arrived at the server.
	FlagCE Flags = 1 << 0
	// FlagQuiet marks a request packet for which the client wants no CR: that of a later
	// packet of the request speaks for it.
	FlagQuiet Flags = 1 << 1
	// FlagGap marks a CR that returns no credit: the server misses the client
	// packet with its number, though it has seen a later one.
	FlagGap Flags = 1 << 1
	// FlagLate marks a response or an error that the server repeats until the client
	// acknowledges it.
	FlagLate Flags = 1 << 1
	// FlagKeep marks a WAIT that returns no credit: the client goes on asking.
	FlagKeep Flags = 1 << 1
)

// Cut says in which packets a message is counted: 0 for the size that the handshake agreed on, else
// a place in [CutSizes]. Packet numbers mean nothing without it.
type Cut uint8

const (
	cutShift = 2
	// MaxCut is the largest cut, of the smallest packets.
	MaxCut Cut = 3
)

// CutSizes are the packet sizes in bytes, library header included, that a living session falls back
// to when its path carries less than it did: what is left of common IP MTUs (1500, 1280) after the
// headers of IPv6 and UDP, and the least.
var CutSizes = [MaxCut + 1]int{0, 1452, 1232, 1024}

// Cut returns the cut in the flags.
func (f Flags) Cut() Cut { return Cut(f >> cutShift) }

// Flags returns the cut as flags.
func (c Cut) Flags() Flags { return Flags(c) << cutShift }

// Reasons why Parse refuses a packet. They are plain values: comparing them costs nothing.
var (
	ErrShort   = errors.New("wire: packet shorter than a header")
	ErrVersion = errors.New("wire: unknown protocol version")
	ErrType    = errors.New("wire: unknown packet type")
	ErrFlags   = errors.New("wire: reserved bits set, or flags that the packet type does not have")
	ErrReqType = errors.New("wire: request type out of range")
	ErrSession = errors.New("wire: session number missing or out of range")
	ErrSize    = errors.New("wire: payload does not fit the packet type or the message size")
	ErrStatus  = errors.New("wire: an error answer says that there is no error")
)

// Header holds the header fields of one packet in host order. The token is not
// among them: see [Token] and [Checksum].
type Header struct {
	Type    Type
	ReqType uint8  // in what a server answers see HostDelay
	Hold    uint16 // in response packet 0 and an ERR units of HoldUnit, in all others see TryHold
	Flags   Flags
	Version uint8 // Version or OldVersion; for Put 0 is Version too
	PktNum  uint32
	MsgSize uint32 // bytes; in an RFR packets, see package doc
	Session uint32
	ReqNum  uint64
}

// Put writes h with the given token into the first HeaderSize bytes of b, which
// must be that long. Fields wider than their place are cut; callers keep the limits.
func (h *Header) Put(b []byte, token uint32) {
	p := (*[HeaderSize]byte)(b)
	version, num := uint64(Version), h.ReqNum&MaxReqNum|uint64(h.PktNum)<<pktShift
	if h.Version == OldVersion {
		version, num = OldVersion, h.ReqNum&OldMaxReqNum|uint64(h.PktNum)<<oldPktShift
	}
	// Three stores of a word each: what copies the header next reads words, and would wait
	// for smaller stores.
	binary.LittleEndian.PutUint64(p[0:], uint64(byte(h.Type)&0x0F)|version<<4|uint64(h.ReqType)<<8|
		uint64(h.Hold)<<16|uint64(h.MsgSize&MaxMsgSize|uint32(h.Flags)<<28)<<32)
	binary.LittleEndian.PutUint64(p[8:], uint64(h.Session)|uint64(token)<<32)
	binary.LittleEndian.PutUint64(p[16:], num)
}

// First returns the first byte of a packet of a type in a version.
func First(t Type, version uint8) uint8 { return uint8(t) | version<<4 }

// PutOnly writes the same as [Header.Put] for packet number 0 without flags. The packet begins with
// the byte first, see [First].
func PutOnly(
	b []byte, first, reqType uint8, hold uint16, msgSize, session, token uint32, reqNum uint64,
) {
	p := (*[HeaderSize]byte)(b)
	binary.LittleEndian.PutUint64(p[0:], uint64(first)|uint64(reqType)<<8|uint64(hold)<<16|
		uint64(msgSize&MaxMsgSize)<<32)
	binary.LittleEndian.PutUint64(p[8:], uint64(session)|uint64(token)<<32)
	binary.LittleEndian.PutUint64(p[16:], reqNum&OldMaxReqNum)
}

// Parse reads the header of pkt into h and checks every field that can be
// checked without the session's state. After an error h holds no promise.
func (h *Header) Parse(pkt []byte) error { return h.ParseCut(pkt, len(pkt)) }

// ParseCut is Parse for a packet of size bytes of which pkt has the header or more. Each byte is
// read once.
func (h *Header) ParseCut(pkt []byte, size int) error {
	if len(pkt) < HeaderSize {
		return ErrShort
	}
	p := (*[HeaderSize]byte)(pkt)
	first := binary.LittleEndian.Uint64(p[0:])
	num := binary.LittleEndian.Uint64(p[16:])
	switch first >> 4 & 0x0F {
	case Version:
		h.Version, h.ReqNum, h.PktNum = Version, num&MaxReqNum, uint32(num>>pktShift)
	case OldVersion:
		h.Version, h.ReqNum, h.PktNum = OldVersion, num&OldMaxReqNum, uint32(num>>oldPktShift)
	default:
		return ErrVersion
	}
	h.Type = Type(first & 0x0F)
	h.ReqType = uint8(first >> 8)
	h.Hold = uint16(first >> 16)
	sizeFlags := uint32(first >> 32)
	h.MsgSize = sizeFlags & MaxMsgSize
	h.Flags = Flags(sizeFlags >> 28)
	h.Session = binary.LittleEndian.Uint32(p[8:])
	payload := size - HeaderSize
	if h.Flags == 0 && h.carriesData() && payload <= int(h.MsgSize) &&
		h.ReqType <= MaxReqType && IsSession(h.Session) {
		return nil // nearly every packet of small messages
	}
	return h.check(payload)
}

// carriesData reports whether h is of a packet of a request or response.
func (h *Header) carriesData() bool { return h.Type == TypeReq || h.Type == TypeResp }

// allowedFlags holds the flags of each type.
var allowedFlags = [numTypes]Flags{
	TypeReq: FlagQuiet | cutFlags, TypeRFR: cutFlags, TypeCR: FlagCE | FlagGap | cutFlags,
	TypeResp: FlagCE | FlagLate | cutFlags, TypeErr: FlagLate | cutFlags,
	TypeWait: FlagCE | FlagKeep | cutFlags,
}

const cutFlags = Flags(MaxCut) << cutShift

// check is the second half of Parse: rules between fields.
func (h *Header) check(payload int) error {
	if h.Type == TypeMgmt {
		return h.checkMgmt(payload)
	}
	if h.Type >= numTypes {
		return ErrType
	}
	if !h.sizeFits(payload) && !h.hasHoles(payload) {
		return ErrSize
	}
	if h.Flags&^allowedFlags[h.Type] != 0 {
		return ErrFlags
	}
	if h.ReqType > MaxReqType && h.SaysType() {
		return ErrReqType
	}
	if !IsSession(h.Session) {
		return ErrSession
	}
	return nil
}

// sizeFits reports whether the packet type has a payload of this size.
func (h *Header) sizeFits(payload int) bool {
	switch h.Type {
	case TypeReq, TypeResp:
		return payload <= int(h.MsgSize)
	case TypeErr:
		return payload == int(h.MsgSize) && payload >= errorHeader && payload <= MaxErrorSize
	case TypeRFR, TypeCR:
		return payload == 0
	}
	return payload == 0 && h.MsgSize == 0
}

// Token returns the token field as it stands in pkt, which holds a header.
func Token(pkt []byte) uint32 {
	return binary.LittleEndian.Uint32((*[HeaderSize]byte)(pkt)[12:])
}

// SetToken writes the token field of pkt, which holds a header.
func SetToken(pkt []byte, token uint32) {
	binary.LittleEndian.PutUint32((*[HeaderSize]byte)(pkt)[12:], token)
}

// loopShift is the place of the loop in the session field.
const loopShift = 24

// IsSession reports whether a session field names a session, of any loop.
func IsSession(field uint32) bool { return field&(KeyPhase|NoSession) < NoSession }

// LoopOf returns the loop in a session field, 0 if it says none.
func LoopOf(field uint32) uint8 { return uint8(field >> loopShift & MaxLoop) }

// SetLoop writes the loop in the session field of pkt, which holds a header.
func SetLoop(pkt []byte, loop uint8) { pkt[11] = pkt[11]&^MaxLoop | loop&MaxLoop }

// FirstOf returns the session field of session 0 of a loop. The loop's other sessions follow.
func FirstOf(loop uint8) uint32 { return uint32(loop&MaxLoop) << loopShift }

// SessionOf returns the session field of a packet, false if it is too short.
func SessionOf(pkt []byte) (uint32, bool) {
	if len(pkt) < HeaderSize {
		return 0, false
	}
	return binary.LittleEndian.Uint32(pkt[8:]), true
}

// The hold field of all packets but response packet 0 and ERR: a try in the low bits, and in
// answers a coarse hold time above it.
const (
	tryBits      = 6
	tryMask      = 1<<tryBits - 1
	coarseUnit   = 1024 * time.Nanosecond
	coarseLonger = 1<<(16-tryBits) - 1
)

// TryHold returns the hold field of a packet other than response packet 0 and ERR: the try mod
// 64, and a hold time in units of 1.024 us.
func TryHold(try uint16, hold time.Duration) uint16 {
	return try&tryMask | uint16(min(max(hold, 0)/coarseUnit, coarseLonger))<<tryBits
}

// Try returns the try in a hold field made by TryHold.
func Try(field uint16) uint16 { return field & tryMask }

// SameTry reports whether two hold fields made by TryHold have the same try.
func SameTry(a, b uint16) bool { return (a^b)&tryMask == 0 }

// TryBusy returns the hold field of a PAST: the try mod 64, and whether the handler of a request
// that was given up still runs in the slot, which is said as a hold time that does not fit.
func TryBusy(try uint16, busy bool) uint16 {
	field := try & tryMask
	if busy {
		field |= coarseLonger << tryBits
	}
	return field
}

// SlotBusy reports whether the hold field of a PAST says that a handler still runs in the slot.
func SlotBusy(field uint16) bool { return field>>tryBits == coarseLonger }

// CoarseHold returns the hold time in a field made by TryHold; known is false if it
// was longer than the field can say, a millisecond.
func CoarseHold(field uint16) (hold time.Duration, known bool) {
	units := field >> tryBits
	return time.Duration(units) * coarseUnit, units != coarseLonger
}

// The hold field of request packet 0: a try in the low bits, and above it what is left of the
// client's time, as a mantissa and an exponent of 2, in microseconds.
const (
	mantissaBits = 5
	mantissaMax  = 1<<mantissaBits - 1
	exponentMax  = 1<<(16-tryBits-mantissaBits) - 1
	remainUnit   = time.Microsecond
)

// TryRemaining returns the hold field of request packet 0: the try mod 64, and the time that is
// left until the client gives the request up, rounded up by at most a sixteenth. A time in
// the past counts as a microsecond, and one too long for the field (18 hours) as no limit.
func TryRemaining(try uint16, left time.Duration) uint16 {
	units := max(1, (max(left, 1)-1)/remainUnit+1)
	exp := 0
	for ; units > mantissaMax; exp++ {
		units = (units + 1) / 2
	}
	if exp > exponentMax {
		return try & tryMask
	}
	return try&tryMask | uint16(units)<<tryBits | uint16(exp)<<(tryBits+mantissaBits)
}

// Remaining returns the time that is left in a hold field made by TryRemaining; ok is false if
// there is no limit.
func Remaining(field uint16) (left time.Duration, ok bool) {
	units := time.Duration(field >> tryBits & mantissaMax)
	return units * remainUnit << (field >> (tryBits + mantissaBits)), units != 0
}

// Hold returns the hold field of pkt, which holds a header or begins with a bundle's record.
func Hold(pkt []byte) uint16 {
	return binary.LittleEndian.Uint16((*[4]byte)(pkt)[2:])
}

// SetHold writes the hold field of pkt, which holds a header or begins with a bundle's record.
func SetHold(pkt []byte, hold uint16) {
	binary.LittleEndian.PutUint16((*[4]byte)(pkt)[2:], hold)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum returns the CRC-32C (RFC 3720, appendix B.4) of a packet or a bundle that is
// given in two parts, leaving out the token field. Head holds at least the header.
func Checksum(head, data []byte) uint32 {
	c := crc32.Update(0, castagnoli, head[:12])
	c = crc32.Update(c, castagnoli, head[16:])
	if len(data) != 0 {
		c = crc32.Update(c, castagnoli, data)
	}
	return c
}

// What this file has is reserved: since [Version] all receivers take it, and nobody sends it yet.

// answerTypes are the packet types that go from a server to a client.
const answerTypes = 1<<TypeCR | 1<<TypeResp | 1<<TypeErr | 1<<TypeWait | 1<<TypePast

// answers reports whether h is of a packet that goes from a server to a client.
func (h *Header) answers() bool { return answerTypes>>h.Type&1 != 0 }

// SaysType reports whether ReqType is the request type, or the [Op] of a management packet. If not
// it is the host delay.
func (h *Header) SaysType() bool { return h.Version == OldVersion || !h.answers() }

// The host delay of an answer: a mantissa and an exponent of 2, in units of 1.024 us.
const (
	delayBits = 4 // of the mantissa, without its upper bit
	delayUnit = 1024 * time.Nanosecond
)

// HostDelay returns the value of the host delay byte for a delay, which stands in place of the
// request type in what a server answers. It rounds down, by less than a sixteenth, but what is
// shorter than a unit counts as one: 0 means that nothing is said. Half a second is the most.
func HostDelay(d time.Duration) uint8 {
	units := uint64(max(d, delayUnit) / delayUnit)
	exp := max(bits.Len64(units)-delayBits-1, 0)
	return uint8(min(uint64(exp)<<delayBits+units>>exp, 0xFF))
}

// HostDelay returns the host delay that an answer says; said is false if it says none.
func (h *Header) HostDelay() (d time.Duration, said bool) {
	if h.ReqType == 0 || h.SaysType() {
		return 0, false
	}
	exp, units := h.ReqType>>delayBits, time.Duration(h.ReqType&(1<<delayBits-1))
	if exp > 0 {
		units = (units + 1<<delayBits) << (exp - 1)
	}
	return units * delayUnit, true
}

// MaxHoles is the largest number of holes in a CR.
const MaxHoles = 32

const (
	holeSize  = 4
	holeShift = 64 - pktShift // place of the count, above the packet number
	// MaxHole is the largest number of packets in a hole.
	MaxHole = 1 << (32 - holeShift)
)

// ErrHoles means that the list of holes in a CR is empty, is not in order, or has packets that
// cannot be.
var ErrHoles = errors.New("wire: bad list of holes")

// hasHoles reports whether h is of a CR with a list of holes of so many bytes.
func (h *Header) hasHoles(payload int) bool {
	return h.Type == TypeCR && h.Flags&FlagGap != 0 && h.Version != OldVersion &&
		payload == int(h.MsgSize) && holesFit(payload)
}

// holesFit reports whether a list of holes may have so many bytes.
func holesFit(size int) bool { return size%holeSize == 0 && size <= MaxHoles*holeSize }

// Holes are the packets that a server misses, the body of a CR with [FlagGap]. The first one of the
// first hole need not be the CR's own.
//
//	0 first packet u32, 20 bits, and above it the number of packets less one, 12 bits · 4 the next
type Holes []byte

// ParseHoles checks the body of a CR with FlagGap, all of b, which Holes alias: nobody may change
// it. Holes are in ascending order, do not touch, and have no packet from MaxPackets on. The error
// is ErrHoles.
func ParseHoles(b []byte) (Holes, error) {
	if len(b) == 0 || !holesFit(len(b)) {
		return nil, ErrHoles
	}
	h := Holes(b)
	least := uint32(0)
	for i := range h.Len() {
		first, count := h.At(i)
		if first < least || first+count > MaxPackets {
			return nil, ErrHoles
		}
		least = first + count + 1
	}
	return h, nil
}

// Len returns how many holes there are.
func (h Holes) Len() int { return len(h) / holeSize }

// At returns the first packet of a hole, and how many there are.
func (h Holes) At(i int) (first, count uint32) {
	v := binary.LittleEndian.Uint32(h[holeSize*i:])
	return v & (MaxPackets - 1), v>>holeShift + 1
}

// AppendHole appends a hole to b. Callers keep the limits: count is 1 to MaxHole.
func AppendHole(b []byte, first, count uint32) []byte {
	return binary.LittleEndian.AppendUint32(b, first&(MaxPackets-1)|(count-1)<<holeShift)
}
