package security

import (
	"encoding/binary"
	"errors"

	"github.com/userspace-rpc/erpc/wire"
)

// Sizes of a sealed datagram in bytes.
const (
	// Overhead is by how much it is longer than the packet inside.
	Overhead = clearSize + tagSize

	clearSize   = wire.SealedHead // its part that is not encrypted
	counterBits = 56
	phaseAt     = 11 // the byte with the key phase
	phaseBit    = 0x80
	tagSize     = 16
	nonceSize   = 12
	// minSealed is the size of the smallest packet that is sealed, a header of a bundle.
	minSealed = 16
	// maxCounter is a counter that no packet gets.
	maxCounter = 1<<counterBits - 1
)

// When keys are changed: see the package's comment.
const (
	packetsPerPhase = 1 << 28
	bytesPerPhase   = 1 << 38
)

// Reasons for which nothing is opened.
var (
	ErrShort     = errors.New("security: packet too short to be a sealed one")
	ErrReplay    = errors.New("security: packet came twice, or far too late")
	ErrForged    = errors.New("security: packet is not the peer's, or damaged")
	ErrExhausted = errors.New("security: too many packets were forged under these keys")
)

// Association has the keys of one pair of endpoints. It belongs to one thread, and allocates
// nothing but when keys change.
type Association struct {
	aead   AEAD
	opener bool   // this side opened the association, and begins key updates
	remote uint32 // by which the peer finds it: see Address

	send      keys
	sendPhase uint64
	counter   uint64 // of the next packet
	nonce     [nonceSize]byte

	recv      keys
	recvPhase uint64
	firstSeen uint64 // the counter of the first packet that was opened in this phase
	last      keys   // of the phase before; no aead if it is over
	ahead     keys   // of the next phase; no aead until needed
	window    window
	isNewest  bool // the packet opened last
	forged    uint64

	// In this phase, both directions together.
	packets, bytes uint64
	maxPackets     uint64
}

// NewAssociation returns an association. Opener says that this side opened it. The error is that
// of AEAD.New.
func NewAssociation(s *Secrets, opener bool) (*Association, error) {
	mine, theirs := &s.Client, &s.Server
	if !opener {
		mine, theirs = theirs, mine
	}
	a := &Association{aead: s.AEAD, opener: opener, maxPackets: packetsPerPhase}
	var err error
	if a.send, err = newKeys(s.AEAD, mine); err != nil {
		return nil, err
	}
	a.recv, err = newKeys(s.AEAD, theirs)
	return a, err
}

// Address sets the field by which the receiver finds the association: the index that the receiver
// chose, in 24 bits, and above it its loop. It stands in the clear in each datagram.
func (a *Association) Address(field uint32) { a.remote = field &^ wire.KeyPhase }

// AEAD returns the cipher.
func (a *Association) AEAD() AEAD { return a.aead }

// Phase returns how often the keys of what this side sends have changed.
func (a *Association) Phase() uint64 { return a.sendPhase }

// Counter returns how many packets were sealed.
func (a *Association) Counter() uint64 { return a.counter }

// Newest returns one more than the highest counter of a packet that was opened.
func (a *Association) Newest() uint64 { return a.window.next }

// IsNewest reports whether the packet opened last is the newest of all.
func (a *Association) IsNewest() bool { return a.isNewest }

// Forged returns how many packets could not be opened.
func (a *Association) Forged() uint64 { return a.forged }

// number sets the nonce to that of a counter.
func (a *Association) number(iv *[nonceSize]byte, n uint64) {
	setNonce(&a.nonce, iv, n)
}

func setNonce(nonce, iv *[nonceSize]byte, n uint64) {
	*nonce = *iv
	x := binary.BigEndian.Uint64(nonce[4:])
	binary.BigEndian.PutUint64(nonce[4:], x^n)
}

// account counts a packet in its phase. The opener changes keys in time.
func (a *Association) account(n int) {
	a.packets++
	a.bytes += uint64(n)
	if a.packets >= a.maxPackets || a.bytes >= bytesPerPhase {
		a.Update()
	}
}

// Worn reports whether half of the packets that may fail to open have. Anybody who knows the index
// can send such packets, so the owner makes another association in time.
func (a *Association) Worn() bool { return a.forged >= a.aead.forgeries()/2 }

// Spent reports whether the keys have sealed and opened twice as much as they should, because the
// peer did not change them. Nothing is sealed any more.
func (a *Association) Spent() bool {
	return a.packets >= 2*a.maxPackets || a.bytes >= 2*bytesPerPhase || a.counter >= maxCounter
}

// Update makes this side change keys, if it is the opener and the peer has followed the last
// change. It reports whether it did.
func (a *Association) Update() bool {
	if !a.opener || a.sendPhase != a.recvPhase {
		return false
	}
	a.advance()
	return true
}

// advance changes the keys of what this side sends.
func (a *Association) advance() {
	a.send = a.send.next(a.aead)
	a.sendPhase++
	a.packets, a.bytes = 0, 0
}

// Seal appends the sealed form of a packet, which is head followed by data and at least a header
// long. Dst has room for it and [Overhead] more, and overlaps neither. It reports false, and
// appends nothing, if the keys are spent.
func (a *Association) Seal(dst, head, data []byte) ([]byte, bool) {
	if a.Spent() {
		return dst, false
	}
	start := len(dst)
	dst = wire.AppendSealed(dst, a.counter, a.remote|uint32(a.sendPhase&1)<<31)
	clear, plain := dst[start:], head
	if len(data) > 0 {
		dst = append(append(dst, head...), data...)
		plain = dst[start+clearSize:]
	}
	a.number(&a.send.iv, a.counter)
	a.counter++
	out := a.send.aead.Seal(dst[:start+clearSize], a.nonce[:], plain, clear)
	a.account(len(out) - start)
	return out, true
}

// Open returns the packet inside a datagram that a peer sealed, in its memory. After an error the
// datagram is of no use any more. The errors are ErrShort, ErrReplay, ErrForged and ErrExhausted.
func (a *Association) Open(pkt []byte) ([]byte, error) {
	if len(pkt) < minSealed+Overhead {
		return nil, ErrShort
	}
	n := wire.SealedCounter(pkt)
	if !a.window.fresh(n) {
		return nil, ErrReplay
	}
	if a.forged >= a.aead.forgeries() {
		return nil, ErrExhausted
	}
	k, newer := a.keysFor(n, pkt[phaseAt]&phaseBit != 0)
	if k == nil {
		a.forged++
		return nil, ErrForged
	}
	a.number(&k.iv, n)
	head, body := pkt[:clearSize], pkt[clearSize:]
	plain, err := k.aead.Open(body[:0], a.nonce[:], body, head)
	if err != nil {
		a.forged++
		return nil, ErrForged
	}
	if newer {
		a.follow(n)
	}
	a.isNewest = n >= a.window.next
	a.window.add(n)
	if a.window.next-a.firstSeen >= WindowSize && a.last.aead != nil {
		a.last = keys{} // no packet that they open is fresh any more
	}
	a.account(len(pkt))
	return plain, nil
}

// keysFor returns the keys for a packet with a counter and the phase's low bit, nil if there are
// none. Newer says that they are those of the next phase.
func (a *Association) keysFor(n uint64, odd bool) (k *keys, newer bool) {
	if odd == (a.recvPhase&1 != 0) {
		return &a.recv, false
	}
	if a.recvPhase > 0 && n < a.firstSeen {
		if a.last.aead == nil {
			return nil, false
		}
		return &a.last, false
	}
	if a.opener && a.sendPhase == a.recvPhase {
		return nil, false // only this side begins
	}
	if a.ahead.aead == nil {
		a.ahead = a.recv.next(a.aead)
	}
	return &a.ahead, true
}

// follow goes to the next phase, of which the packet with a counter was the first.
func (a *Association) follow(n uint64) {
	a.last, a.recv, a.ahead = a.recv, a.ahead, keys{}
	a.recvPhase++
	a.firstSeen = n
	if a.sendPhase < a.recvPhase {
		a.advance()
	}
}
