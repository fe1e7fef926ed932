package security

import (
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/cpu"
)

// AEAD names a cipher for packets.
type AEAD uint8

// The ciphers. All have nonces of 12 bytes and tags of 16.
const (
	AES128GCM        AEAD = 1
	ChaCha20Poly1305 AEAD = 2
	numAEADs              = 3
)

// String returns the cipher's name.
func (a AEAD) String() string {
	switch a {
	case AES128GCM:
		return "AES-128-GCM"
	case ChaCha20Poly1305:
		return "ChaCha20-Poly1305"
	}
	return "unknown cipher"
}

// keySize returns the size of a key in bytes.
func (a AEAD) keySize() int {
	if a == AES128GCM {
		return 16
	}
	return 32
}

// forgeries returns how many packets may fail to open under keys of one association.
func (a AEAD) forgeries() uint64 {
	if a == AES128GCM {
		return 1 << 52
	}
	return 1 << 36
}

// ErrNoCipher means that two sides have no cipher in common.
var ErrNoCipher = errors.New("security: no cipher in common")

// makers make ciphers from keys. That of ChaCha20-Poly1305 is there if its package is linked.
var makers = [numAEADs]func(key []byte) (cipher.AEAD, error){AES128GCM: newGCM}

// Register makes f the maker of a cipher, in place of the one that the package has, if any. It is
// for the start of a program: package security/chacha brings a cipher by it, and tests see every
// nonce.
func Register(a AEAD, f func(key []byte) (cipher.AEAD, error)) { makers[a] = f }

func newGCM(key []byte) (cipher.AEAD, error) {
	b, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(b)
}

// New returns the cipher with a key of its size.
func (a AEAD) New(key []byte) (cipher.AEAD, error) {
	if a >= numAEADs || makers[a] == nil {
		return nil, fmt.Errorf("%w: %v is not linked: import its package", ErrNoCipher, a)
	}
	return makers[a](key)
}

// Has reports whether this program has the cipher.
func (a AEAD) Has() bool { return a < numAEADs && makers[a] != nil }

// hasAES reports whether the processor computes AES and GCM itself.
var hasAES = cpu.X86.HasAES && cpu.X86.HasPCLMULQDQ || cpu.ARM64.HasAES && cpu.ARM64.HasPMULL ||
	cpu.S390X.HasAESGCM

// HasAES reports whether the processor computes AES and GCM itself.
func HasAES() bool { return hasAES }

// Ciphers is a set of ciphers, a bit for each, as a side of a handshake names those that it has.
// Bit 0 says that its processor computes AES itself.
type Ciphers uint8

// Own returns the ciphers of this program.
func Own() (c Ciphers) {
	if hasAES {
		c = 1
	}
	for a := AES128GCM; a < numAEADs; a++ {
		if a.Has() {
			c |= 1 << a
		}
	}
	return c
}

// String lists the ciphers.
func (c Ciphers) String() string {
	var names []string
	for a := AES128GCM; a < numAEADs; a++ {
		if c>>a&1 != 0 {
			names = append(names, a.String())
		}
	}
	return strings.Join(names, ", ")
}

// Choose returns the cipher for two sides: AES-128-GCM if both processors compute it, else
// ChaCha20-Poly1305 if both have it. The error is ErrNoCipher.
func Choose(a, b Ciphers) (AEAD, error) {
	both := a & b
	switch {
	case both>>AES128GCM&1 != 0 && both&1 != 0:
		return AES128GCM, nil
	case both>>ChaCha20Poly1305&1 != 0:
		return ChaCha20Poly1305, nil
	case both>>AES128GCM&1 != 0:
		return AES128GCM, nil // slow, and as good as the processor's caches keep secrets
	}
	return 0, fmt.Errorf("%w: %v here, %v there: link security/chacha on both sides",
		ErrNoCipher, a, b)
}
