package security

import (
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
)

// SecretSize is the size of all secrets in bytes.
const SecretSize = sha256.Size

// Secret is a secret from which others follow.
type Secret [SecretSize]byte

// expand is HKDF-Expand-Label with SHA-256 (RFC 8446, section 7.1): n bytes from a secret, for a
// purpose. The label's prefix is the library's own.
func (s *Secret) expand(label string, context []byte, n int) []byte {
	info := make([]byte, 0, 64)
	info = binary.BigEndian.AppendUint16(info, uint16(n))
	info = append(info, byte(len(prefix)+len(label)))
	info = append(append(info, prefix...), label...)
	info = append(info, byte(len(context)))
	info = append(info, context...)
	out, err := hkdf.Expand(sha256.New, s[:], string(info), n)
	if err != nil {
		panic("security: " + err.Error()) // n is a constant below 255 hashes
	}
	return out
}

const prefix = "erpc3 "

// derive returns another secret.
func (s *Secret) derive(label string, context []byte) (d Secret) {
	copy(d[:], s.expand(label, context, SecretSize))
	return d
}

// extract is HKDF-Extract with SHA-256.
func extract(key, salt []byte) (s Secret) {
	out, err := hkdf.Extract(sha256.New, key, salt)
	if err != nil {
		panic("security: " + err.Error()) // keys are not too short for any mode
	}
	copy(s[:], out)
	return s
}

// Secrets are those of a new association, one for each direction.
type Secrets struct {
	AEAD   AEAD
	Client Secret // of what the side sends that opened the association
	Server Secret
}

// newSecrets makes those of an association from the one that a handshake gave.
func newSecrets(a AEAD, master *Secret) *Secrets {
	return &Secrets{
		AEAD: a, Client: master.derive("c ap", nil), Server: master.derive("s ap", nil),
	}
}

// keys seal or open the packets of one direction in one phase.
type keys struct {
	aead   cipher.AEAD
	iv     [nonceSize]byte
	secret Secret // from which those of the next phase follow
}

func newKeys(a AEAD, secret *Secret) (k keys, err error) {
	k.secret = *secret
	copy(k.iv[:], secret.expand("iv", nil, nonceSize))
	k.aead, err = a.New(secret.expand("key", nil, a.keySize()))
	return k, err
}

// next returns the keys of the next phase.
func (k *keys) next(a AEAD) keys {
	secret := k.secret.derive("ku", nil)
	n, err := newKeys(a, &secret)
	if err != nil {
		panic("security: " + err.Error()) // the cipher was made before
	}
	return n
}
