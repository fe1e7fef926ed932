package herd

import (
	"github.com/userspace-rpc/erpc/kv/message"
	"github.com/userspace-rpc/erpc/kv/mica"
)

// Store is the Handler that has the items of one partition: GETs of a batch run interleaved, and
// before other operations the memory that they will read is asked for (package mica).
type Store struct {
	items   *mica.Partition
	number  int
	of      int // partitions
	lookups [Batch]mica.Lookup
	hashes  [Batch]mica.KeyHash
	list    [Batch]*Request
}

// NewStore returns the Handler of partition number, of so many. The items stay the caller's.
func NewStore(items *mica.Partition, number, of int) *Store {
	return &Store{items: items, number: number, of: of}
}

// Run implements Handler.
func (s *Store) Run(list []Request) {
	n := 0
	for i := range list {
		r := &list[i]
		if r.Refused != Answered || r.Kind != message.Get {
			continue
		}
		k, err := message.ParseKeyed(r.Body, message.Get)
		if !s.accept(r, k.Hash, err) {
			continue
		}
		s.lookups[n].Hash, s.lookups[n].Key, s.list[n] = s.items.Hash(k.Key), k.Key, r
		n++
	}
	s.items.GetBatch(s.lookups[:n])
	for i, r := range s.list[:n] {
		if l := &s.lookups[i]; l.Found {
			found(r, &l.Item)
		} else {
			status(r, mica.ErrNotFound)
		}
	}
	s.others(list)
}

// others runs what is no GET.
func (s *Store) others(list []Request) {
	n := 0
	for i := range list {
		r := &list[i]
		if r.Refused != Answered || r.Kind == message.Get {
			continue
		}
		if key := message.KeyOf(r.Body, r.Kind); key != nil {
			s.hashes[n] = s.items.Hash(key)
			n++
		}
	}
	if n > 1 {
		s.items.Warm(s.hashes[:n])
	}
	for i := range list {
		r := &list[i]
		if r.Refused != Answered {
			continue
		}
		switch r.Kind {
		case message.Get:
		case message.Write:
			s.write(r)
		case message.Delete, message.Increment, message.Touch:
			s.keyed(r)
		case message.Stats:
			s.stats(r)
		default:
			r.Refused = BadKind
		}
	}
}

// accept refuses a request that was read with an error, or whose key is of another partition.
func (s *Store) accept(r *Request, hash uint64, err error) bool {
	if err == nil && mica.PartitionOf(hash, s.of) != s.number {
		err = message.ErrPartition
	}
	if err != nil {
		r.Refused = refusalOf(err)
	}
	return err == nil
}

func (s *Store) write(r *Request) {
	w, err := message.ParseWrite(r.Body)
	if err == nil && mica.Hash(w.Key) != w.Hash {
		err = message.ErrHash
	}
	if !s.accept(r, w.Hash, err) {
		return
	}
	version, err := s.items.Write(&mica.Write{Hash: s.items.Hash(w.Key), Key: w.Key, Value: w.Value,
		Flags: w.Flags, Expires: s.items.Expiry(w.Life), If: w.If, Version: w.Version})
	if err != nil {
		status(r, err)
		return
	}
	numbers(r, version)
}

func (s *Store) keyed(r *Request) {
	k, err := message.ParseKeyed(r.Body, r.Kind)
	if !s.accept(r, k.Hash, err) {
		return
	}
	hash := s.items.Hash(k.Key)
	switch r.Kind {
	case message.Delete:
		status(r, s.items.Delete(hash, k.Key, k.Version))
	case message.Increment:
		value, version, err := s.items.Increment(hash, k.Key, k.Delta, k.Down, 0)
		if err != nil {
			status(r, err)
			return
		}
		numbers(r, value, version)
	case message.Touch:
		it, ok := s.items.Touch(hash, k.Key, s.items.Expiry(k.Life))
		if !ok {
			status(r, mica.ErrNotFound)
			return
		}
		found(r, &it)
	}
}

// stats answers with the partition's counters.
func (s *Store) stats(r *Request) {
	b := message.AppendStats(r.Room[:0], s.items.Stats())
	if len(b) > len(r.Room) {
		r.Refused = TooLong
		return
	}
	r.Size = len(b)
}

// found answers with an item.
func found(r *Request, it *mica.Item) {
	n := message.FoundHead + len(it.Value)
	if n > len(r.Room) {
		r.Refused = TooLong
		return
	}
	message.PutFound(r.Room, it)
	r.Size = message.FoundHead + copy(r.Room[message.FoundHead:], it.Value)
}

// status answers with the status of an error of the partition.
func status(r *Request, err error) {
	st, ok := message.StatusOf(err)
	if !ok {
		r.Refused = BadRequest
		return
	}
	r.Room[0], r.Size = byte(st), 1
}

// numbers answers with numbers.
func numbers(r *Request, list ...uint64) {
	r.Size = len(message.AppendNumbers(r.Room[:0], list...))
}
