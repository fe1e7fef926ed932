package cuckoo

import (
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/userspace-rpc/erpc/gopt"
)

// ErrName means a prefix that does not begin with a slash, or is longer than a Name.
var ErrName = errors.New("cuckoo: bad name prefix")

// Name is a name of Named Data Networking, such as /org/example/film, with zeros behind it. Its
// components are what slashes begin. 32 bytes are the mean of URLs (G-Opt paper, section 4).
type Name [32]byte

// Names maps prefixes of names to output ports, and finds the longest one of a name: a cuckoo table
// of the hashes of prefixes, and the prefixes (after Wang and others, IWQoS 2014, with cuckoo in
// place of perfect hashing as in the G-Opt paper).
type Names struct {
	table   *Table // the number of the first of list with a hash, plus 1
	list    []prefix
	lengths uint64 // bit n: there is a prefix of n bytes
}

// prefix is an entry, one of those with the same hash.
type prefix struct {
	name Name // zeros behind the prefix
	port uint32
	next uint32 // number of another one, plus 1
	size uint8
	_    [23]byte // a cache line
}

// NewNames returns Names for n prefixes.
func NewNames(n int) *Names { return &Names{table: New(n), list: make([]prefix, 0, n)} }

// cut returns the first size bytes of a name.
func (n *Name) cut(size int) (out Name) {
	copy(out[:], n[:size])
	return out
}

// hash returns the hash of the first size bytes, which is not 0.
func (n *Name) hash(size int) uint64 {
	h := uint64(size)
	for i := 0; i < size; i += 8 {
		word := binary.LittleEndian.Uint64(n[i : i+8])
		if left := size - i; left < 8 {
			word &= 1<<(8*left) - 1
		}
		h = hash(h ^ word)
	}
	return h | 1<<63
}

// ends returns where components of a name end: bit n, behind n bytes.
func (n *Name) ends() uint64 {
	slashes, letters := uint64(0), 0
	for i, c := range n {
		if c == 0 {
			break
		}
		letters = i + 1
		if c == '/' {
			slashes |= 1 << i
		}
	}
	return slashes | 1<<letters
}

// Add enters a prefix of whole components, such as /org/example, or gives it another port. Errors:
// ErrName, ErrFull.
func (t *Names) Add(text string, port uint32) error {
	if len(text) < 2 || len(text) > len(Name{}) || text[0] != '/' || text[len(text)-1] == '/' {
		return ErrName
	}
	p := prefix{port: port, size: uint8(len(text))}
	if copy(p.name[:], text); bits.Len64(p.name.ends()) != len(text)+1 {
		return ErrName // a zero in it
	}
	h := p.name.hash(len(text))
	first, _ := t.table.Get(h)
	for at := uint32(first); at != 0; at = t.list[at-1].next {
		if e := &t.list[at-1]; e.size == p.size && e.name == p.name {
			e.port = port
			return nil
		}
	}
	p.next = uint32(first)
	if err := t.table.Put(h, uint64(len(t.list)+1)); err != nil {
		return err
	}
	t.list = append(t.list, p)
	t.lengths |= 1 << len(text)
	return nil
}

// Len returns the number of prefixes.
func (t *Names) Len() int { return len(t.list) }

// Find returns the port of the longest prefix of a name. FindBatch does so for many, interleaved.
//
//gopt:batch B=32 values=name with=find:findAll
func (t *Names) Find(name *Name) (port uint32, ok bool) {
	for ends := name.ends() & t.lengths; ends != 0; {
		size := bits.Len64(ends) - 1 // the longest one that is left
		ends &^= 1 << size
		key := name.hash(size)
		h := hash(key)
		b := &t.table.buckets[t.table.first(h)]
		gopt.Expensive(b)
		i := b.find(key)
		if i == ways {
			b = &t.table.buckets[t.table.second(h)]
			gopt.Expensive(b)
			i = b.find(key)
		}
		if i == ways {
			continue
		}
		for at := uint32(b.values[i]); at != 0; {
			e := &t.list[at-1]
			gopt.Expensive(e)
			if int(e.size) == size && e.name == name.cut(size) {
				return e.port, true
			}
			at = e.next
		}
	}
	return 0, false
}
