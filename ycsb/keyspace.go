package ycsb

import (
	"strconv"
	"sync"
	"sync/atomic"
)

// Keyspace says which records there are. The clients of a run share one.
type Keyspace struct {
	loaded   int64
	capacity int64        // records that hashed ranks are spread over
	there    atomic.Int64 // records 0 to there-1 were inserted, or failed
	failures atomic.Int64 // len(failed)

	mu     sync.Mutex
	next   int64
	done   map[int64]bool // inserted, while one before is not
	failed map[int64]bool
}

// NewKeyspace returns a Keyspace with so many records loaded, at least one. inserts is how many are
// expected to come, twice over: hashed ranks are spread over that many more from the beginning, and
// those that do not exist yet are drawn again.
func NewKeyspace(loaded, inserts int64) *Keyspace {
	loaded = max(loaded, 1)
	k := &Keyspace{
		loaded: loaded, capacity: loaded + 2*max(inserts, 0), next: loaded,
		done: map[int64]bool{}, failed: map[int64]bool{},
	}
	k.there.Store(loaded)
	return k
}

// Loaded returns how many records were loaded before the run.
func (k *Keyspace) Loaded() int64 { return k.loaded }

// Len returns how many records there are from 0 on.
func (k *Keyspace) Len() int64 { return k.there.Load() }

// Take returns the number of a record to insert. Inserted must follow.
func (k *Keyspace) Take() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.next++
	return k.next - 1
}

// Inserted says that an insert is over. A record whose insert failed may be there or not, and is
// not asked for.
func (k *Keyspace) Inserted(record int64, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !ok {
		k.failed[record] = true
		k.failures.Store(int64(len(k.failed)))
	}
	k.done[record] = true
	there := k.there.Load()
	for k.done[there] {
		delete(k.done, there)
		there++
	}
	k.there.Store(there)
}

// known reports whether a record is there for sure.
func (k *Keyspace) known(record int64) bool {
	if record >= k.there.Load() {
		return false
	}
	if k.failures.Load() == 0 {
		return true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.failed[record]
}

// AppendKey appends the key of a record.
func AppendKey(dst []byte, record int64) []byte {
	return strconv.AppendUint(append(dst, "user"...), absolute(hash(uint64(record))), 10)
}

// MaxKey is the length of the longest key in bytes.
const MaxKey = len("user") + len("9223372036854775808")
