package session

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/wire"
)

// cookieWindow is how long a cookie is good, at least; at most twice that.
const cookieWindow = 10 * time.Second

// Cookies proves addresses without keeping state: a cookie is a MAC over the
// address, the client's nonce, session and token, and the time. Only who can read
// packets sent to the address can repeat it (the idea of RFC 6347, section 4.2.1).
type Cookies struct {
	secret [32]byte
}

// NewCookies returns a Cookies with a secret of at least 128 random bits.
func NewCookies(secret [32]byte) *Cookies { return &Cookies{secret: secret} }

func windowOf(now monotime.Time) int64 { return int64(now) / int64(cookieWindow) }

// Make returns the cookie for a Connect that came from addr (any byte form of the address).
func (k *Cookies) Make(addr []byte, c *wire.Connect, now monotime.Time) [wire.CookieSize]byte {
	return k.mac(addr, c, windowOf(now))
}

// Check reports whether the Connect from addr carries a good cookie.
func (k *Cookies) Check(addr []byte, c *wire.Connect, now monotime.Time) bool {
	for _, w := range [2]int64{windowOf(now), windowOf(now) - 1} {
		want := k.mac(addr, c, w)
		if hmac.Equal(want[:], c.Cookie[:]) {
			return true
		}
	}
	return false
}

func (k *Cookies) mac(addr []byte, c *wire.Connect, window int64) (cookie [wire.CookieSize]byte) {
	m := hmac.New(sha256.New, k.secret[:])
	m.Write(addr)
	var b [32]byte
	binary.LittleEndian.PutUint64(b[0:], uint64(window))
	binary.LittleEndian.PutUint64(b[8:], c.Nonce)
	binary.LittleEndian.PutUint64(b[16:], c.Epoch)
	binary.LittleEndian.PutUint32(b[24:], c.Session)
	binary.LittleEndian.PutUint32(b[28:], c.Token)
	m.Write(b[:])
	copy(cookie[:], m.Sum(nil))
	return cookie
}
