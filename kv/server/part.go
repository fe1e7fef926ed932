package server

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kv/message"
	"github.com/userspace-rpc/erpc/kv/mica"
)

// part is a partition and the event loop that owns it.
type part struct {
	s      *Server
	number int
	store  *mica.Partition
	nexus  *erpc.Nexus
	rpc    *erpc.Rpc
	tick   *erpc.Timer
	layout []byte // the answer to Info

	mu   sync.Mutex // with Shared: guards the store
	gone bool       // the store is closed

	keys    [message.MaxMulti][]byte // of a MultiGet
	public  [message.MaxMulti]uint64 // ... their hashes as the client has them
	lookups [message.MaxMulti]mica.Lookup
	hashes  [erpc.MaxBatch]mica.KeyHash
	entries []byte // an answer to MultiGet
}

func newPart(s *Server, number int) (*part, error) {
	store, err := mica.New(s.cfg.Store)
	if err != nil {
		return nil, err
	}
	nexus, err := erpc.NewNexus(s.cfg.Rpc)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	store.SetNow(s.cfg.Clock())
	p := &part{s: s, number: number, store: store, nexus: nexus}
	for typ, fn := range map[uint8]erpc.BatchHandler{message.Get: p.gets, message.Write: p.writes,
		message.Delete: p.deletes, message.Increment: p.increments} {
		if s.cfg.Shared {
			fn = p.burst(fn)
		}
		if s.cfg.OneByOne {
			err = errors.Join(err, nexus.Register(typ, erpc.Dispatch, single(fn)))
		} else {
			err = errors.Join(err, nexus.RegisterBatch(typ, fn))
		}
	}
	for typ, fn := range map[uint8]erpc.Handler{message.Touch: p.touch, message.MultiGet: p.multi,
		message.Stats: p.stats, message.Info: p.info} {
		if s.cfg.Shared {
			fn = p.one(fn)
		}
		err = errors.Join(err, nexus.Register(typ, erpc.Dispatch, fn))
	}
	if err != nil {
		return nil, errors.Join(err, nexus.Close(), store.Close())
	}
	return p, nil
}

// single gives a batch handler its requests one by one.
func single(fn erpc.BatchHandler) erpc.Handler {
	one := make([]erpc.ReqHandle, 1)
	return func(h erpc.ReqHandle) {
		one[0] = h
		fn(one)
	}
}

func (p *part) run() error { return p.rpc.Run(p.s.closed.Load) }

// Expired items are looked for during sweepTime, and again after sweepEvery while there may be
// more: 1 % of the loop's time.
const (
	sweepTime  = 100 * time.Microsecond
	sweepEvery = 10 * time.Millisecond
	sweepSteps = 16 // from one look at the clock to the next
)

// ticked tells the partition the time, and looks for expired items.
func (p *part) ticked() {
	p.lock()
	defer p.unlock()
	p.store.SetNow(p.s.cfg.Clock())
	next := p.s.cfg.Tick
	for end := time.Now().Add(sweepTime); p.store.Sweep(sweepSteps); {
		if !time.Now().Before(end) {
			next = min(next, sweepEvery)
			break
		}
	}
	_ = p.tick.Reset(next) // the loop is closed otherwise
}

// startTicks begins to tell the time.
func (p *part) startTicks() (err error) {
	p.lock()
	p.store.SetNow(p.s.cfg.Clock()) // New is some time ago
	p.unlock()
	p.tick, err = p.rpc.AfterFunc(p.s.cfg.Tick, p.ticked)
	return err
}

// own returns an error if a hash belongs to another partition.
func (p *part) own(hash uint64) error {
	if at := mica.PartitionOf(hash, len(p.s.parts)); at != p.number {
		return fmt.Errorf("%w: this is %d, its is %d", message.ErrPartition, p.number, at)
	}
	return nil
}

// refuse tells a client what was wrong with its request.
func refuse(h erpc.ReqHandle, err error) {
	_ = h.RespondError(&erpc.Error{Code: erpc.CodeInvalidArgument, Text: err.Error()})
}

// failed answers with the status of an error of the partition.
func failed(h erpc.ReqHandle, err error) {
	s, ok := message.StatusOf(err)
	if !ok {
		refuse(h, err)
		return
	}
	status := [1]byte{byte(s)}
	_ = h.RespondBytes(status[:]) // the client gets its errors
}

// found answers with an item.
func found(h erpc.ReqHandle, it *mica.Item) {
	b, err := h.Alloc(message.FoundHead + len(it.Value))
	if err != nil {
		_ = h.RespondError(err) // the session may have ended
		return
	}
	data := b.Data()
	message.PutFound(data, it)
	copy(data[message.FoundHead:], it.Value)
	if h.Respond(b) != nil {
		b.Free()
	}
}

// numbers answers with numbers.
func numbers(h erpc.ReqHandle, list ...uint64) {
	var buf [17]byte
	_ = h.RespondBytes(message.AppendNumbers(buf[:0], list...))
}

// parse reads requests with a key, and answers those that are wrong. The others are the first n of
// reqs.
func (p *part) parse(reqs []erpc.ReqHandle, typ uint8, list *[erpc.MaxBatch]message.Keyed) (n int) {
	for _, h := range reqs {
		k, err := message.ParseKeyed(h.Data(), typ)
		if err == nil {
			err = p.own(k.Hash)
		}
		if err != nil {
			refuse(h, err)
			continue
		}
		reqs[n], list[n], p.hashes[n] = h, k, p.store.Hash(k.Key)
		n++
	}
	return n
}

func (p *part) gets(reqs []erpc.ReqHandle) {
	n := 0
	for _, h := range reqs {
		k, err := message.ParseKeyed(h.Data(), message.Get)
		if err == nil {
			err = p.own(k.Hash)
		}
		if err != nil {
			refuse(h, err)
			continue
		}
		reqs[n] = h
		l := &p.lookups[n]
		l.Hash, l.Key = p.store.Hash(k.Key), k.Key
		n++
	}
	if p.s.cfg.OneByOne {
		for i := range n {
			l := &p.lookups[i]
			l.Item, l.Found = p.store.Get(l.Hash, l.Key)
		}
	} else {
		p.store.GetBatch(p.lookups[:n])
	}
	for i, h := range reqs[:n] {
		if l := &p.lookups[i]; l.Found {
			found(h, &l.Item)
		} else {
			failed(h, mica.ErrNotFound)
		}
	}
}

func (p *part) writes(reqs []erpc.ReqHandle) {
	var list [erpc.MaxBatch]message.Item
	n := 0
	for _, h := range reqs {
		w, err := message.ParseWrite(h.Data())
		if err == nil {
			err = p.own(w.Hash)
		}
		if err == nil && mica.Hash(w.Key) != w.Hash {
			err = message.ErrHash
		}
		if err != nil {
			refuse(h, err)
			continue
		}
		reqs[n], list[n], p.hashes[n] = h, w, p.store.Hash(w.Key)
		n++
	}
	p.warm(n)
	for i, h := range reqs[:n] {
		w := &list[i]
		version, err := p.store.Write(&mica.Write{Hash: p.hashes[i], Key: w.Key, Value: w.Value,
			Flags: w.Flags, Expires: p.store.Expiry(w.Life), If: w.If, Version: w.Version})
		if err != nil {
			failed(h, err)
			continue
		}
		numbers(h, version)
	}
}

// warm prepares for n operations; one alone is as fast without.
func (p *part) warm(n int) {
	if n > 1 {
		p.store.Warm(p.hashes[:n])
	}
}

func (p *part) deletes(reqs []erpc.ReqHandle) {
	var list [erpc.MaxBatch]message.Keyed
	n := p.parse(reqs, message.Delete, &list)
	p.warm(n)
	for i, h := range reqs[:n] {
		failed(h, p.store.Delete(p.hashes[i], list[i].Key, list[i].Version))
	}
}

func (p *part) increments(reqs []erpc.ReqHandle) {
	var list [erpc.MaxBatch]message.Keyed
	n := p.parse(reqs, message.Increment, &list)
	p.warm(n)
	for i, h := range reqs[:n] {
		k := &list[i]
		value, version, err := p.store.Increment(p.hashes[i], k.Key, k.Delta, k.Down, 0)
		if err != nil {
			failed(h, err)
			continue
		}
		numbers(h, value, version)
	}
}

func (p *part) touch(h erpc.ReqHandle) {
	k, err := message.ParseKeyed(h.Data(), message.Touch)
	if err == nil {
		err = p.own(k.Hash)
	}
	if err != nil {
		refuse(h, err)
		return
	}
	if it, ok := p.store.Touch(p.store.Hash(k.Key), k.Key, p.store.Expiry(k.Life)); ok {
		found(h, &it)
	} else {
		failed(h, mica.ErrNotFound)
	}
}

func (p *part) multi(h erpc.ReqHandle) {
	n, err := message.ParseKeys(h.Data(), &p.keys, &p.public)
	for i := 0; i < n && err == nil; i++ {
		err = p.own(p.public[i])
		p.lookups[i].Hash, p.lookups[i].Key = p.store.Hash(p.keys[i]), p.keys[i]
	}
	if err != nil {
		refuse(h, err)
		return
	}
	list := p.lookups[:n]
	p.store.GetBatch(list)
	b := append(p.entries[:0], byte(message.OK))
	for i := range list {
		if len(b)+message.EntrySize(&list[i])+n > message.MaxAnswer {
			b = append(b, byte(message.Later))
			continue
		}
		b = message.AppendEntry(b, &list[i])
	}
	p.entries = b
	_ = h.RespondBytes(b)
	if cap(p.entries) > 64<<10 {
		p.entries = nil
	}
}

func (p *part) stats(h erpc.ReqHandle) {
	st := p.store.Stats()
	_ = h.RespondBytes(message.AppendStats(nil, st))
}

func (p *part) info(h erpc.ReqHandle) { _ = h.RespondBytes(p.layout) }
