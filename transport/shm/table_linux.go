package shm

import "github.com/userspace-rpc/erpc/transport"

// table finds peers by address: open addressing, since every packet that goes to another
// destination than the one before asks it. Only for the using goroutine.
type table struct {
	slots []*peer // a power of two, at most half full
	used  int
}

// get returns the peer of an address, or nil.
func (t *table) get(a *transport.Addr) *peer {
	if len(t.slots) == 0 {
		return nil
	}
	mask := uint64(len(t.slots) - 1)
	for i := hash(a) & mask; ; i = (i + 1) & mask {
		p := t.slots[i]
		if p == nil || p.addr == *a {
			return p
		}
	}
}

// put adds p, in the place of another of the same address.
func (t *table) put(p *peer) {
	if 2*(t.used+1) > len(t.slots) {
		t.rebuild(max(16, 2*len(t.slots)), nil)
	}
	mask := uint64(len(t.slots) - 1)
	i := hash(&p.addr) & mask
	for t.slots[i] != nil && t.slots[i].addr != p.addr {
		i = (i + 1) & mask
	}
	if t.slots[i] == nil {
		t.used++
	}
	t.slots[i] = p
}

// remove forgets an address.
func (t *table) remove(a *transport.Addr) {
	if p := t.get(a); p != nil {
		t.rebuild(len(t.slots), p)
	}
}

// rebuild makes the table anew with size slots, without one peer.
func (t *table) rebuild(size int, without *peer) {
	old := t.slots
	t.slots, t.used = make([]*peer, size), 0
	for _, p := range old {
		if p != nil && p != without {
			t.put(p)
		}
	}
}
