package cmac

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
)

// Size is the size of a key and of a code in bytes.
const Size = aes.BlockSize

// MAC makes codes with one key. It is for one goroutine at a time.
type MAC struct {
	block  cipher.Block
	k1, k2 [Size]byte // for messages that fill their last block, and for others
	x      [Size]byte // here, so that it does not escape to the heap with each message
}

// New returns a MAC with a key.
func New(key [Size]byte) *MAC {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic("cmac: " + err.Error()) // the size is right
	}
	m := &MAC{block: block}
	var l [Size]byte
	block.Encrypt(l[:], l[:])
	m.k1 = double(l)
	m.k2 = double(m.k1)
	return m
}

// double multiplies by x in GF(2^128) (RFC 4493, section 2.3).
func double(b [Size]byte) (r [Size]byte) {
	for i := range Size - 1 {
		r[i] = b[i]<<1 | b[i+1]>>7
	}
	r[Size-1] = b[Size-1]<<1 ^ 0x87*(b[0]>>7)
	return r
}

// Sum returns the code of msg.
func (m *MAC) Sum(msg []byte) [Size]byte {
	x := m.x[:]
	clear(x)
	for len(msg) > Size {
		subtle.XORBytes(x, x, msg[:Size])
		m.block.Encrypt(x, x)
		msg = msg[Size:]
	}
	subtle.XORBytes(x, x, msg)
	if len(msg) == Size {
		subtle.XORBytes(x, x, m.k1[:])
	} else {
		x[len(msg)] ^= 0x80
		subtle.XORBytes(x, x, m.k2[:])
	}
	m.block.Encrypt(x, x)
	return m.x
}
