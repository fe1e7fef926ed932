package security

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/userspace-rpc/erpc/wire"
)

// A key log has a line for each secret of an association, as SSLKEYLOGFILE has for TLS: a label
// with the side that seals by it and the number of the cipher, a nonce, the index field of what it
// seals, and the secret, the last three in hexadecimal. The nonce is that of the Connect by which
// the association was opened; the index is the receiver's.
//
//	ERPC_CLIENT_SECRET_1 00112233445566aa 00010007 <64 digits>
//	ERPC_SERVER_SECRET_1 00112233445566aa 00010002 <64 digits>
const (
	clientLabel = "ERPC_CLIENT_SECRET_"
	serverLabel = "ERPC_SERVER_SECRET_"
)

// ErrKeyLog means that a line of a key log has one of the labels above, and is damaged.
var ErrKeyLog = errors.New("security: bad line in a key log")

// AppendKeyLog appends the lines of an association to dst. Client and server are the index fields
// that the two sides chose.
func (s *Secrets) AppendKeyLog(dst []byte, nonce uint64, client, server uint32) []byte {
	dst = fmt.Appendf(dst, "%s%d %016x %08x %x\n", clientLabel, s.AEAD, nonce, server, s.Client[:])
	return fmt.Appendf(dst, "%s%d %016x %08x %x\n", serverLabel, s.AEAD, nonce, client, s.Server[:])
}

// Logged is a line of a key log.
type Logged struct {
	Nonce  uint64
	Client bool   // the side that opened the association seals by it
	Index  uint32 // field of the datagrams that it seals, without the key phase
	AEAD   AEAD
	Secret Secret
}

// ParseKeyLog returns the lines of a key log that have labels of this package, each once. It skips
// all others. The error is ErrKeyLog with the line's number.
func ParseKeyLog(log []byte) (list []Logged, err error) {
	seen := map[Logged]bool{}
	n := 0
	for text := range strings.Lines(string(log)) {
		n++
		l, ours, err := parseLogged(text)
		if err != nil {
			return nil, fmt.Errorf("%w: line %d", err, n)
		}
		if ours && !seen[l] {
			seen[l] = true
			list = append(list, l)
		}
	}
	return list, nil
}

// parseLogged parses a line. Ours says that it has one of the labels.
func parseLogged(text string) (l Logged, ours bool, err error) {
	number, client := strings.CutPrefix(text, clientLabel)
	if !client {
		if number, ours = strings.CutPrefix(text, serverLabel); !ours {
			return l, false, nil
		}
	}
	l.Client = client
	word := strings.Fields(number)
	if len(word) != 4 || len(word[1]) != 16 || len(word[2]) != 8 || len(word[3]) != 2*SecretSize {
		return l, true, ErrKeyLog
	}
	a, err := strconv.ParseUint(word[0], 10, 8)
	if err == nil {
		l.Nonce, err = strconv.ParseUint(word[1], 16, 64)
	}
	if err == nil {
		var index uint64
		index, err = strconv.ParseUint(word[2], 16, 31)
		l.Index = uint32(index)
	}
	if err == nil {
		_, err = hex.Decode(l.Secret[:], []byte(word[3]))
	}
	if l.AEAD = AEAD(a); err != nil || l.AEAD == 0 || l.AEAD >= numAEADs {
		return l, true, ErrKeyLog
	}
	return l, true, nil
}

// Opener opens packets of one direction of an association for a holder of its secret from a key
// log. It takes each packet as often as it comes, and is no part of a connection.
type Opener struct {
	aead   AEAD
	index  uint32
	phases []keys // from the first phase on, as far as they were needed
	phase  int    // of the newest packet
	found  bool   // a packet was opened
	nonce  [nonceSize]byte
}

// MaxPhases is how many phases an Opener tries before the first packet that it opens.
const MaxPhases = 256

// NewOpener returns one. The error is that of AEAD.New.
func NewOpener(l *Logged) (*Opener, error) {
	k, err := newKeys(l.AEAD, &l.Secret)
	return &Opener{aead: l.AEAD, index: l.Index, phases: []keys{k}}, err
}

// Found reports whether a packet was opened.
func (o *Opener) Found() bool { return o.found }

// Index returns the index field of the datagrams that it opens.
func (o *Opener) Index() uint32 { return o.index }

// Opened says what was found in a sealed packet.
type Opened struct {
	Counter uint64
	Phase   int
}

// Open appends the packet inside a datagram, which is whole, to dst. It reports false if this
// secret did not seal it.
func (o *Opener) Open(dst, pkt []byte) ([]byte, Opened, bool) {
	if len(pkt) < minSealed+Overhead || !wire.IsSealed(pkt) || wire.SealedField(pkt) != o.index {
		return dst, Opened{}, false
	}
	phase := int(pkt[phaseAt]&phaseBit) >> 7
	if o.found {
		if phase != o.phase&1 && o.phase > 0 {
			if out, at, ok := o.try(dst, pkt, o.phase-1); ok {
				return out, at, ok
			}
		}
		return o.try(dst, pkt, o.phase+(o.phase&1^phase))
	}
	for ; phase < MaxPhases; phase += 2 {
		if out, at, ok := o.try(dst, pkt, phase); ok {
			return out, at, ok
		}
	}
	return dst, Opened{}, false
}

// try opens a packet with the keys of a phase.
func (o *Opener) try(dst, pkt []byte, phase int) ([]byte, Opened, bool) {
	for len(o.phases) <= phase {
		o.phases = append(o.phases, o.phases[len(o.phases)-1].next(o.aead))
	}
	k, n := &o.phases[phase], wire.SealedCounter(pkt)
	setNonce(&o.nonce, &k.iv, n)
	out, err := k.aead.Open(dst, o.nonce[:], pkt[clearSize:], pkt[:clearSize])
	if err != nil {
		return dst, Opened{}, false
	}
	o.phase, o.found = max(o.phase, phase), true
	return out, Opened{n, phase}, true
}
