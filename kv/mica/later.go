package mica

import "github.com/userspace-rpc/erpc/gopt"

// Limits of Puts that wait: so many, and so many bytes of keys and values.
const (
	maxLater   = gopt.Batch - 1 // and a lookup behind them
	laterBytes = 4 << 10
	laterItem  = 512 // of one Put; larger ones do not wait
)

// later has copies of Puts that have returned and are not in the index yet. They are written
// together, so that they wait for their lines of memory at the same time.
type later struct {
	n, used int
	hashes  [gopt.Batch]KeyHash
	ends    [maxLater]laterEnds
	bytes   [laterBytes]byte
}

// laterEnds says where key and value of a Put end; the key begins where the Put before it ends.
type laterEnds struct{ key, value uint16 }

// putLater is Put into a cache without readers, of an item of at most laterItem bytes. Such a Put
// cannot fail when it is written.
func (p *Partition) putLater(hash KeyHash, key, value []byte) error {
	if len(key) < MinKey || len(key) > MaxKey {
		return ErrKey
	}
	l := &p.later
	if l.n == maxLater || l.used+len(key)+len(value) > laterBytes {
		p.catchUp()
	}
	l.hashes[l.n] = hash
	at := l.used
	at += copy(l.bytes[at:], key)
	e := &l.ends[l.n]
	e.key = uint16(at)
	at += copy(l.bytes[at:], value)
	e.value = uint16(at)
	l.used = at
	l.n++
	return nil
}

// writeLater writes the Puts that wait, in their order, and asks for the lines of a lookup that
// follows.
func (p *Partition) writeLater(next KeyHash) {
	l := &p.later
	n := l.n
	l.n, l.used = 0, 0
	l.hashes[n] = next
	var c candidates
	p.look(l.hashes[:n+1], &c)
	from := uint16(0)
	for i := range n {
		e, hash := l.ends[i], l.hashes[i]
		it := content{key: l.bytes[from:e.key], value: l.bytes[e.key:e.value]}
		_, _ = p.store(hash, p.find(hash, it.key), &it) // a cache takes every small item
		from = e.value
	}
}
