package session

import (
	"crypto/subtle"
	"encoding/binary"
	"time"

	"github.com/userspace-rpc/erpc/internal/cmac"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/packet"
	"github.com/userspace-rpc/erpc/wire"
)

// cookieWindow is how long a cookie is good, at least; at most twice that.
const cookieWindow = 10 * time.Second

// Cookies proves addresses without keeping state: a cookie is a MAC over the address, all that the
// two Connects of an attempt have in common ([wire.Fixed]), and the time. Only who can read packets
// sent to the address can repeat it (the idea of RFC 6347, section 4.2.1), and nobody can change
// what was offered.
//
// It is AES-CMAC (RFC 4493). The lowest bit says instead in which window of time the cookie was
// made, so that one MAC is enough to check it. Making and checking allocate nothing.
//
// A server with several loops shares the secret among them. Its cookies name the loop that takes
// the session, in the byte at wire.CookieLoopAt, which the MAC covers.
type Cookies struct {
	mac   *cmac.MAC
	in    []byte
	loops bool
}

// NewCookies returns a Cookies with a random secret.
func NewCookies(secret [cmac.Size]byte) *Cookies {
	return &Cookies{mac: cmac.New(secret), in: make([]byte, 0, 256)}
}

// NewLoopCookies returns the Cookies of one of several loops, to all of which the secret is known.
func NewLoopCookies(secret [cmac.Size]byte) *Cookies {
	k := NewCookies(secret)
	k.loops = true
	return k
}

func windowOf(now monotime.Time) uint64 { return uint64(now / monotime.Time(cookieWindow)) }

// Make returns the cookie for a Connect that came from an address. Body is the whole body.
func (k *Cookies) Make(
	from *packet.Addr, body []byte, now monotime.Time,
) [wire.CookieSize]byte {
	return k.at(from, body, windowOf(now), 0)
}

// MakeFor is Make for a session that a loop takes, from 1 on. It needs NewLoopCookies.
func (k *Cookies) MakeFor(
	loop uint8, from *packet.Addr, body []byte, now monotime.Time,
) [wire.CookieSize]byte {
	return k.at(from, body, windowOf(now), loop)
}

// Spread returns a number that looks random, and is the same for all Connects of an attempt.
func (k *Cookies) Spread(from *packet.Addr, nonce uint64) uint64 {
	in := binary.LittleEndian.AppendUint64(k.in[:0], nonce) // shorter than the input of a cookie
	in = append(in, from.IP[:]...)
	in = binary.LittleEndian.AppendUint32(in, from.Scope)
	k.in = binary.LittleEndian.AppendUint32(in, from.Port)
	sum := k.mac.Sum(k.in)
	return binary.LittleEndian.Uint64(sum[:])
}

// Check reports whether a Connect that came from an address carries a good cookie. Body is the
// whole body, of which c was read.
func (k *Cookies) Check(
	from *packet.Addr, c *wire.Connect, body []byte, now monotime.Time,
) bool {
	window := windowOf(now)
	if byte(window)&1 != c.Cookie[0]&1 {
		window--
	}
	loop := uint8(0)
	if k.loops {
		loop = c.Cookie[wire.CookieLoopAt]
	}
	want := k.at(from, body, window, loop)
	return subtle.ConstantTimeCompare(want[:], c.Cookie[:]) == 1
}

// at returns the cookie of a window of time, for a loop if that is not 0.
func (k *Cookies) at(
	from *packet.Addr, body []byte, window uint64, loop uint8,
) (cookie [wire.CookieSize]byte) {
	head, tail := wire.Fixed(body)
	in := binary.LittleEndian.AppendUint64(k.in[:0], window)
	in = append(in, head...)
	in = append(in, from.IP[:]...)
	in = binary.LittleEndian.AppendUint32(in, from.Scope)
	in = binary.LittleEndian.AppendUint32(in, from.Port)
	in = append(in, tail...) // the only part whose size varies
	if k.loops {
		in = append(in, loop)
	}
	k.in = in
	cookie = k.mac.Sum(k.in)
	if k.loops {
		cookie[wire.CookieLoopAt] = loop
	}
	cookie[0] = cookie[0]&^1 | byte(window)&1
	return cookie
}
