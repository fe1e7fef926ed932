package rfp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/bits"
	"time"

	"github.com/userspace-rpc/erpc/rfp/onesided"
)

// Errors of configuration and of what a peer sent.
var (
	ErrConfig   = errors.New("rfp: bad config")
	ErrGeometry = errors.New("rfp: the two sides have different geometries")
	ErrEpoch    = errors.New("rfp: the server has restarted")
	ErrProtocol = errors.New("rfp: the peer broke the protocol")
)

// Regions, by side. The package comment describes their contents.
const (
	serverRequests  = 0 // the client writes
	serverResponses = 1 // the client reads
	clientReplies   = 0 // the server writes
	clientPrivate   = 1
)

// Limits of a geometry.
const (
	MaxSlots = 64
	MaxBody  = 1<<24 - 1 // bytes, the largest length that fits the header
)

const (
	headBytes    = 16
	tailBytes    = 8
	wordBytes    = 8
	entryBytes   = 4
	controlBytes = 64
	lineBytes    = 64
	// Overhead is the size of a message without its entries, and Entry that of each entry's header.
	Overhead = headBytes + tailBytes
	Entry    = entryBytes
)

// Geometry has the sizes on which both sides of a link agree.
type Geometry struct {
	Slots    int // messages under way, 1 to MaxSlots
	Request  int // bytes of entries in a request message
	Response int // ... in a response message
}

// Check returns ErrConfig if there can be no such geometry.
func (g Geometry) Check() error {
	if g.Slots < 1 || g.Slots > MaxSlots || g.Request < entryBytes || g.Request > MaxBody ||
		g.Response < entryBytes || g.Response > MaxBody {
		return fmt.Errorf("%w: geometry %+v", ErrConfig, g)
	}
	for _, s := range append(ServerSpecs(g), ClientSpecs(g)...) {
		if s.Size > onesided.MaxRegion {
			return fmt.Errorf("%w: geometry %+v takes a region of %d bytes", ErrConfig, g, s.Size)
		}
	}
	return nil
}

// messageBytes is the size of a message with a body of n bytes.
func messageBytes(n int) int { return headBytes + (n+7)&^7 + tailBytes }

func stride(body int) int { return (messageBytes(body) + lineBytes - 1) &^ (lineBytes - 1) }

func (g Geometry) requestAt(slot int) int  { return slot * stride(g.Request) }
func (g Geometry) wantedAt(slot int) int   { return g.Slots*stride(g.Request) + 8*slot }
func (g Geometry) responseAt(slot int) int { return controlBytes + slot*stride(g.Response) }
func (g Geometry) replyAt(slot int) int    { return slot * stride(g.Response) }

// The client's private region: requests, landing places, words for wantedAt, control block.
func (g Geometry) landingAt(slot int) int {
	return g.Slots*stride(g.Request) + slot*stride(g.Response)
}
func (g Geometry) stagingAt(slot int) int { return g.landingAt(g.Slots) + 8*slot }
func (g Geometry) controlAt() int         { return g.stagingAt(MaxSlots) }

// ServerSpecs returns the regions of the server's side of a link.
func ServerSpecs(g Geometry) []onesided.Spec {
	return []onesided.Spec{
		{Size: g.wantedAt(MaxSlots), Access: onesided.PeerWrites},
		{Size: g.responseAt(g.Slots), Access: onesided.PeerReads},
	}
}

// ClientSpecs returns the regions of the client's side of a link.
func ClientSpecs(g Geometry) []onesided.Spec {
	return []onesided.Spec{
		{Size: g.replyAt(g.Slots), Access: onesided.PeerWrites},
		{Size: g.controlAt() + controlBytes},
	}
}

// Flags of a message.
const (
	flagReply = 1 << iota // of a request: the client waits for a WRITE
	flagSum               // the tail covers the body
	flagsKnown
)

// head is the first words of a message.
type head struct {
	seq   uint32
	size  int // of the body
	flags uint8
	count int    // entries
	aux   uint16 // batch size wished, of a request; process time, of a response
}

func (h *head) words() (first, second uint64) {
	return uint64(h.seq) | uint64(h.size)<<32 | uint64(h.flags)<<56,
		uint64(h.count) | uint64(h.aux)<<16
}

func parseHead(first, second uint64) head {
	return head{uint32(first), int(first >> 32 & MaxBody), uint8(first >> 56),
		int(second & 0xffff), uint16(second >> 16)}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// tail is the last word of a message. Nobody but the two sides knows the nonce, so that no bytes
// of an entry look like the tail of a message.
func tail(nonce uint64, h *head, body []byte) uint64 {
	t := nonce + uint64(h.seq)*0x9E3779B97F4A7C15
	if h.flags&flagSum != 0 {
		first, second := h.words()
		words := (first ^ bits.RotateLeft64(second, 29)) * 0xBF58476D1CE4E5B9
		t ^= uint64(crc32.Checksum(body, castagnoli)) ^ words ^ words>>31
	}
	return t
}

// finish writes what lies around a body of h.size bytes in a slot, the first word last.
func finish(slot []byte, nonce uint64, h *head) {
	onesided.Store(slot, 0, enclose(slot, nonce, h))
}

// enclose writes the same but for the first word, which it returns.
func enclose(slot []byte, nonce uint64, h *head) (first uint64) {
	first, second := h.words()
	binary.LittleEndian.PutUint64(slot[8:], second)
	end := headBytes + (h.size+7)&^7
	binary.LittleEndian.PutUint64(slot[end:], tail(nonce, h, slot[headBytes:headBytes+h.size]))
	return first
}

// Process time travels in units of 64 ns, 4 ms at most.
const timeShift = 6

func timeUnits(d time.Duration) uint16 {
	return uint16(min(max(int64(d), 0)>>timeShift, 1<<16-1))
}

func unitsTime(u uint16) time.Duration { return time.Duration(u) << timeShift }

// control has the words that a client reads first.
type control struct {
	epoch, nonce uint64
	first        uint32 // sequence of the first message in each slot
	geometry     Geometry
}

const controlMagic = 0x3130504652 // "RFP01"

func (c *control) put(mem []byte) {
	le := binary.LittleEndian
	le.PutUint64(mem[8:], c.epoch)
	le.PutUint64(mem[16:], c.nonce)
	le.PutUint64(mem[24:], uint64(c.first))
	le.PutUint64(mem[32:], uint64(c.geometry.Slots))
	le.PutUint64(mem[40:], uint64(c.geometry.Request))
	le.PutUint64(mem[48:], uint64(c.geometry.Response))
	le.PutUint64(mem[56:], c.check())
	onesided.Store(mem, 0, controlMagic)
}

// check is a word that a torn or foreign block does not have.
func (c *control) check() uint64 {
	h := c.epoch*0x9E3779B97F4A7C15 ^ c.nonce*0xBF58476D1CE4E5B9 ^ uint64(c.first)
	g := &c.geometry
	return h*31 + uint64(g.Slots)*31*31 + uint64(g.Request)*961 + uint64(g.Response)
}

// readControl reports false if there is no whole block yet.
func readControl(mem []byte) (c control, ok bool) {
	if onesided.Load(mem, 0) != controlMagic {
		return c, false
	}
	le := binary.LittleEndian
	c.epoch, c.nonce, c.first = le.Uint64(mem[8:]), le.Uint64(mem[16:]), le.Uint32(mem[24:])
	c.geometry = Geometry{int(le.Uint64(mem[32:])), int(le.Uint64(mem[40:])), int(le.Uint64(mem[48:]))}
	return c, le.Uint64(mem[56:]) == c.check()
}

// An entry begins with a word of 32 bits: 24 of its size and 8 of its type or its status. Entries
// begin at multiples of 4.
func putEntry(body []byte, size int, kind uint8) {
	binary.LittleEndian.PutUint32(body, uint32(size)|uint32(kind)<<24)
}

// nextEntry cuts the first entry off. It reports false if what is left is none.
func nextEntry(body []byte) (data []byte, kind uint8, rest []byte, ok bool) {
	if len(body) < entryBytes {
		return nil, 0, nil, false
	}
	word := binary.LittleEndian.Uint32(body)
	size := int(word & MaxBody)
	end := entryBytes + (size+3)&^3
	if end > len(body) {
		return nil, 0, nil, false
	}
	return body[entryBytes : entryBytes+size : entryBytes+size], uint8(word >> 24), body[end:], true
}

// entrySize returns the size of an entry with n bytes of data.
func entrySize(n int) int { return entryBytes + (n+3)&^3 }
