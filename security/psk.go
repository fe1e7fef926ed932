package security

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
)

// MinPSK is the size of the shortest shared key in bytes.
const MinPSK = 16

// ErrPSK is wrapped by the errors of CheckPSK and ParsePSK.
var ErrPSK = errors.New("security: bad shared key")

// CheckPSK says what is wrong with shared keys.
func CheckPSK(keys [][]byte) error {
	for i, k := range keys {
		if len(k) < MinPSK {
			return fmt.Errorf("%w: key %d has %d bytes, must have at least %d",
				ErrPSK, i+1, len(k), MinPSK)
		}
	}
	return nil
}

// ParsePSK reads a file of shared keys: one a line, in hexadecimal digits or base64. Empty lines
// and those that begin with # are skipped.
func ParsePSK(file []byte) (keys [][]byte, err error) {
	n := 0
	for line := range strings.Lines(string(file)) {
		n++
		text := strings.TrimSpace(line)
		if text == "" || text[0] == '#' {
			continue
		}
		key, err := hex.DecodeString(text)
		if err != nil {
			if key, err = base64.StdEncoding.DecodeString(text); err != nil {
				return nil, fmt.Errorf("%w: line %d is neither hexadecimal digits nor base64", ErrPSK, n)
			}
		}
		if len(key) < MinPSK {
			return nil, fmt.Errorf("%w: line %d has %d bytes, must have at least %d",
				ErrPSK, n, len(key), MinPSK)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%w: the file has none: write one a line", ErrPSK)
	}
	return keys, nil
}

// pskHandshake makes keys from a shared one, in three messages. Each is framed by its length
// (u16), and the MACs are HMAC-SHA-256 over all messages up to there.
//
//	client: random 32 B · name of the key 8 B · parameters · MAC
//	server: random 32 B · parameters · MAC
//	client: MAC
type pskHandshake struct {
	keys   [][]byte // a client uses the first one
	random io.Reader
	params []byte // a client's
	turn   int    // of the message that comes next
	log    []byte // all messages so far
	key    Secret // of the handshake
	name   string // of the shared key that it is by, see PSKName
	theirs []byte
}

const (
	randomSize = 32
	nameSize   = 8
	macSize    = sha256.Size
	maxPSK     = 4 << 10 // the largest message
	pskHead    = 2       // its length
)

// NewPSK returns a handshake by a shared key. A client uses the first one, a server takes all. The
// keys were checked by [CheckPSK]. Random is crypto/rand's if it is nil.
func NewPSK(keys [][]byte, random io.Reader, client bool, o Opening) *Handshake {
	h := newHandshake(client, &o)
	if random == nil {
		random = rand.Reader
	}
	params := append([]byte{byte(h.mine)}, o.Params...)
	h.psk = &pskHandshake{keys: keys, random: random, params: params}
	return h
}

// PSKName returns the name of a shared key, by which handshakes name it in the clear, as 16
// hexadecimal digits. Nothing else follows from it.
func PSKName(key []byte) string { return hex.EncodeToString(pskName(key)) }

// pskName returns the name of a key: nothing follows from it.
func pskName(key []byte) []byte {
	s := extract(key, []byte("erpc3 name"))
	return s[:nameSize]
}

func (p *pskHandshake) step(h *Handshake) error {
	if !h.begun {
		h.begun = true
		if h.client {
			p.key, p.name = extract(p.keys[0], []byte("erpc3 psk")), PSKName(p.keys[0])
			msg, err := p.start(pskName(p.keys[0]))
			if err != nil {
				return err
			}
			p.say(h, "client hello", append(msg, p.params...))
			p.turn = 1
		}
	}
	for {
		if len(h.in) < 2 {
			return nil
		}
		size := int(binary.LittleEndian.Uint16(h.in))
		if size > maxPSK {
			return ErrMessage
		}
		if len(h.in) < 2+size {
			return nil
		}
		msg := h.in[:2+size]
		h.in = h.in[2+size:]
		if err := p.take(h, msg); err != nil {
			return err
		}
	}
}

// start begins a message with a random number and something else.
func (p *pskHandshake) start(with []byte) ([]byte, error) {
	msg := make([]byte, randomSize, 2*randomSize)
	if _, err := io.ReadFull(p.random, msg); err != nil {
		return nil, err
	}
	return append(msg, with...), nil
}

// mac returns the MAC of all messages so far and one more.
func (p *pskHandshake) mac(label string, msg []byte) []byte {
	key := p.key.derive(label, nil)
	m := hmac.New(sha256.New, key[:])
	m.Write(p.log)
	m.Write(msg)
	return m.Sum(nil)
}

// say adds a message.
func (p *pskHandshake) say(h *Handshake, label string, body []byte) {
	msg := binary.LittleEndian.AppendUint16(nil, uint16(len(body)+macSize))
	msg = append(msg, body...)
	msg = append(msg, p.mac(label, msg)...)
	p.log = append(p.log, msg...)
	h.out = append(h.out, msg...)
}

// heard checks a message and returns its body.
func (p *pskHandshake) heard(label string, msg []byte, minBody int) ([]byte, error) {
	end := len(msg) - macSize
	if end < 2+minBody {
		return nil, ErrMessage
	}
	if !hmac.Equal(msg[end:], p.mac(label, msg[:end])) {
		return nil, ErrKey
	}
	p.log = append(p.log, msg...)
	return msg[2:end], nil
}

// take takes the peer's next message.
func (p *pskHandshake) take(h *Handshake, msg []byte) error {
	turn := p.turn
	p.turn = 3
	switch {
	case !h.client && turn == 0:
		p.turn = 2
		return p.hello(h, msg)
	case h.client && turn == 1:
		body, err := p.heard("server hello", msg, randomSize)
		if err != nil {
			return err
		}
		p.theirs = bytes.Clone(body[randomSize:])
		p.say(h, "client finished", nil)
		return p.finish(h)
	case !h.client && turn == 2:
		if _, err := p.heard("client finished", msg, 0); err != nil {
			return err
		}
		return p.finish(h)
	}
	return ErrMessage
}

// hello takes a client's first message.
func (p *pskHandshake) hello(h *Handshake, msg []byte) error {
	if len(msg) < 2+randomSize+nameSize+macSize {
		return ErrMessage
	}
	found := false
	for _, key := range p.keys {
		if bytes.Equal(pskName(key), msg[2+randomSize:][:nameSize]) {
			p.key, found = extract(key, []byte("erpc3 psk")), true
			p.name = PSKName(key)
		}
	}
	if !found {
		return ErrKey
	}
	body, err := p.heard("client hello", msg, randomSize+nameSize)
	if err != nil {
		return err
	}
	p.theirs = bytes.Clone(body[randomSize+nameSize:])
	mine, err := h.answer(p.theirs)
	if err != nil {
		return err
	}
	out, err := p.start(mine)
	if err != nil {
		return err
	}
	p.say(h, "server hello", out)
	return nil
}

func (p *pskHandshake) finish(h *Handshake) error {
	chosen, err := h.conclude(p.theirs)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(p.log)
	master := p.key.derive("master", sum[:])
	h.secrets, h.done = newSecrets(chosen, &master), true
	return nil
}
