package sectest

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/userspace-rpc/erpc/security"
)

// Nonces notes every key of AES-128-GCM that seals something, and every nonce that it does so with.
type Nonces struct {
	on       atomic.Bool
	mu       sync.Mutex
	keys     map[[16]byte]*nonceSet
	sealed   uint64
	repeated string // the first nonce that came twice, "" without
}

// nonceSet holds the nonces of a key, by their last eight bytes: 64 to a word, since counters
// follow each other.
type nonceSet struct {
	first uint64 // what the others are counted from
	words map[uint64]uint64
}

// WatchNonces makes all associations and handshakes say which nonces they use, between Begin and
// End. It is for the start of a test program.
func WatchNonces() *Nonces {
	n := &Nonces{keys: make(map[[16]byte]*nonceSet)}
	security.Register(security.AES128GCM, func(key []byte) (cipher.AEAD, error) {
		b, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		gcm, err := cipher.NewGCM(b)
		return &watched{gcm, n, [16]byte(key)}, err
	})
	return n
}

// Result returns how many keys have sealed how often, and an error if any of them used a nonce
// twice.
func (n *Nonces) Result() (keys int, sealed uint64, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.repeated != "" {
		err = fmt.Errorf("sectest: a key has sealed twice with nonce %s", n.repeated)
	}
	return len(n.keys), n.sealed, err
}

// Begin begins anew.
func (n *Nonces) Begin() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.keys)
	n.sealed, n.repeated = 0, ""
	n.on.Store(true)
}

// End lets all else go unnoticed.
func (n *Nonces) End() { n.on.Store(false) }

func (n *Nonces) note(key *[16]byte, nonce []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := binary.BigEndian.Uint64(nonce[4:])
	set := n.keys[*key]
	if set == nil {
		set = &nonceSet{at, make(map[uint64]uint64)}
		n.keys[*key] = set
	}
	at ^= set.first
	if bit := uint64(1) << (at % 64); set.words[at/64]&bit != 0 {
		n.repeated = fmt.Sprintf("%x", nonce)
	} else {
		set.words[at/64] |= bit
	}
	n.sealed++
}

// watched is a cipher whose nonces are noted.
type watched struct {
	cipher.AEAD
	nonces *Nonces
	key    [16]byte
}

func (w *watched) Seal(dst, nonce, plain, aad []byte) []byte {
	if w.nonces.on.Load() {
		w.nonces.note(&w.key, nonce)
	}
	return w.AEAD.Seal(dst, nonce, plain, aad)
}
