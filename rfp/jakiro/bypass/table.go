package bypass

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/userspace-rpc/erpc/kv/mica"
	"github.com/userspace-rpc/erpc/rfp"
	"github.com/userspace-rpc/erpc/rfp/jakiro"
	"github.com/userspace-rpc/erpc/rfp/onesided"
)

// Errors.
var (
	ErrLayout = errors.New("bypass: bad layout")
	ErrFull   = errors.New("bypass: no place for another key")
	ErrSize   = errors.New("bypass: key or value too large")
)

const (
	entryBytes = 32
	ways       = 3
	// MaxBuckets is how many places the three parts of a hash can name.
	MaxBuckets = 1 << 21
	// searched bounds the entries that a PUT may look at to make room.
	searched = 2000
)

// Layout is the shape of a table, known to server and clients.
type Layout struct {
	Buckets int // places of entries: a power of two, up to MaxBuckets
	Item    int // bytes of a key and its value together, at most
}

// Check returns ErrLayout if there can be no such table.
func (l Layout) Check() error {
	if l.Buckets < 8 || l.Buckets > MaxBuckets || l.Buckets&(l.Buckets-1) != 0 || l.Item < 1 ||
		l.Item >= 1<<24 || l.items()*l.stride() > onesided.MaxRegion {
		return fmt.Errorf("%w: %+v", ErrLayout, l)
	}
	return nil
}

// items is how many keys there may be, and some memory that clients may still read.
func (l Layout) items() int  { return l.Buckets }
func (l Layout) stride() int { return (l.Item + 7) &^ 7 }

// Specs returns the regions of the server's side of a link that clients read.
func (l Layout) Specs() []onesided.Spec {
	return []onesided.Spec{{Size: l.Buckets * entryBytes, Access: onesided.PeerReads},
		{Size: l.items() * l.stride(), Access: onesided.PeerReads}}
}

// entry is the content of a place.
type entry struct {
	hash             uint64
	item, key, value int
	sum              uint32
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// put writes an entry to its 32 bytes.
func (e *entry) put(mem []byte) {
	var b [entryBytes]byte
	le := binary.LittleEndian
	le.PutUint64(b[:], e.hash)
	le.PutUint64(b[8:], uint64(e.item)|uint64(e.key)<<32|uint64(e.value)<<40)
	le.PutUint64(b[16:], uint64(e.sum))
	le.PutUint64(b[24:], uint64(sum(b[:24])))
	for i := 0; i < entryBytes; i += 8 {
		onesided.Store(mem, i, le.Uint64(b[i:]))
	}
}

// parse reads an entry. It reports false if the checksum is wrong; an empty place has hash 0.
func parse(b []byte) (e entry, ok bool) {
	le := binary.LittleEndian
	e.hash = le.Uint64(b)
	w := le.Uint64(b[8:])
	e.item, e.key, e.value = int(uint32(w)), int(w>>32&0xff), int(w>>40)
	e.sum = le.Uint32(b[16:])
	if e.hash == 0 && w == 0 {
		return e, le.Uint64(b[16:]) == 0 && le.Uint64(b[24:]) == 0
	}
	return e, le.Uint64(b[24:]) == uint64(sum(b[:24]))
}

// hashOf is a hash that is not 0.
func hashOf(key []byte) uint64 {
	h := mica.Hash(key) * 0x9E3779B97F4A7C15
	h ^= h >> 32
	return max(h, 1)
}

// place returns place i of a hash.
func (l Layout) place(hash uint64, i int) int { return int(hash>>(21*i)) & (l.Buckets - 1) }

// Table is the server's side. One goroutine uses it.
type Table struct {
	Layout
	index, heap []byte
	free        []int // items that are free, a ring
	oldest, n   int   // the one that has been free the longest, and how many
	used        int
	queue       []step // of the search for room
}

// step is a place that the search for room has come to.
type step struct{ place, from int }

// NewTable makes an empty table in the regions that Specs describes. Errors: ErrLayout.
func NewTable(l Layout, index, heap []byte) (*Table, error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	if s := l.Specs(); len(index) != s[0].Size || len(heap) != s[1].Size {
		return nil, fmt.Errorf("%w: regions of %d and %d bytes", ErrLayout, len(index), len(heap))
	}
	t := &Table{Layout: l, index: index, heap: heap, free: make([]int, l.items())}
	for i := range l.items() {
		t.give(i)
	}
	return t, nil
}

// take returns the item that has been free the longest. There always is one, as not all places of
// entries are in use.
func (t *Table) take() int {
	i := t.free[t.oldest]
	t.oldest = (t.oldest + 1) % len(t.free)
	t.n--
	return i
}

// give frees an item.
func (t *Table) give(i int) {
	t.free[(t.oldest+t.n)%len(t.free)] = i
	t.n++
}

// Len returns how many keys there are.
func (t *Table) Len() int { return t.used }

func (t *Table) slot(place int) []byte { return t.index[place*entryBytes : (place+1)*entryBytes] }

// find returns the place of a key, or -1.
func (t *Table) find(hash uint64, key []byte) (place int, e entry) {
	for i := range ways {
		p := t.place(hash, i)
		e, _ := parse(t.slot(p))
		if e.hash == hash && string(t.item(&e)[:e.key]) == string(key) {
			return p, e
		}
	}
	return -1, entry{}
}

func (t *Table) item(e *entry) []byte {
	at := e.item * t.stride()
	return t.heap[at : at+e.key+e.value]
}

// Get returns the value of a key, valid until the next call.
func (t *Table) Get(key []byte) (value []byte, found bool) {
	p, e := t.find(hashOf(key), key)
	if p < 0 {
		return nil, false
	}
	return t.item(&e)[e.key:], true
}

// Put stores a value. Errors: ErrSize, ErrFull.
func (t *Table) Put(key, value []byte) error {
	if len(key) < 1 || len(key) > 255 || len(key)+len(value) > t.Item {
		return ErrSize
	}
	hash := hashOf(key)
	p, old := t.find(hash, key)
	if p < 0 {
		if 4*t.used >= 3*t.Buckets {
			return ErrFull
		}
		if p = t.room(hash); p < 0 {
			return ErrFull
		}
	}
	e := entry{hash: hash, item: t.take(), key: len(key), value: len(value)}
	to := t.item(&e)
	copy(to[copy(to, key):], value)
	e.sum = sum(to)
	e.put(t.slot(p))
	if old.hash != 0 {
		t.give(old.item)
	} else {
		t.used++
	}
	return nil
}

// Delete removes a key and reports whether it was there.
func (t *Table) Delete(key []byte) bool {
	p, e := t.find(hashOf(key), key)
	if p < 0 {
		return false
	}
	t.clear(p)
	t.give(e.item)
	t.used--
	return true
}

func (t *Table) clear(place int) {
	for i := 0; i < entryBytes; i += 8 {
		onesided.Store(t.slot(place), i, 0)
	}
}

// room makes one of the places of a hash empty and returns it; -1 if it finds no way.
func (t *Table) room(hash uint64) int {
	t.queue = t.queue[:0]
	for i := range ways {
		t.queue = append(t.queue, step{t.place(hash, i), -1})
	}
	for i := 0; i < len(t.queue) && i < searched; i++ {
		at := t.queue[i].place
		e, _ := parse(t.slot(at))
		if e.hash == 0 {
			return t.shift(i)
		}
		for w := range ways {
			if p := t.place(e.hash, w); p != at && !t.passed(i, p) {
				t.queue = append(t.queue, step{p, i})
			}
		}
	}
	return -1
}

// passed reports whether the way to step i goes through a place.
func (t *Table) passed(i, place int) bool {
	for ; i >= 0; i = t.queue[i].from {
		if t.queue[i].place == place {
			return true
		}
	}
	return false
}

// shift moves the entries on the way to the empty place of step i, the last one first. Each is at
// its new place before its old one is overwritten.
func (t *Table) shift(i int) int {
	for t.queue[i].from >= 0 {
		from := t.queue[i].from
		e, _ := parse(t.slot(t.queue[from].place))
		e.put(t.slot(t.queue[i].place))
		i = from
	}
	t.clear(t.queue[i].place)
	return t.queue[i].place
}

// Attach makes the table answer package jakiro's requests at a server: PUTs, deletions, and GETs
// that found nothing.
func Attach(s *rfp.Server, t *Table) {
	s.Handle(jakiro.Get, func(key, resp []byte) ([]byte, error) {
		value, found := t.Get(key)
		if !found {
			return append(resp, 0), nil
		}
		return append(append(resp, 1), value...), nil
	})
	s.Handle(jakiro.Put, func(req, resp []byte) ([]byte, error) {
		key, value, ok := jakiro.SplitPut(req)
		if !ok {
			return nil, jakiro.ErrRequest
		}
		if err := t.Put(key, value); err != nil {
			return nil, err
		}
		return append(resp, 1), nil
	})
	s.Handle(jakiro.Delete, func(key, resp []byte) ([]byte, error) {
		if t.Delete(key) {
			return append(resp, 1), nil
		}
		return append(resp, 0), nil
	})
}
