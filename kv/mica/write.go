package mica

// Condition says when a write takes place.
type Condition uint8

// The conditions.
const (
	Always    Condition = iota
	IfAbsent            // ErrExists if the key is there
	IfPresent           // ErrNotFound if it is not
	IfVersion           // ErrNotFound, or ErrVersion if the item has another version
)

// Write is an item to write. Keys and values are copied.
type Write struct {
	Hash    KeyHash
	Key     []byte
	Value   []byte
	Flags   uint32 // kept with the item, for the client
	Expires uint32 // on the clock of SetNow; 0: never
	If      Condition
	Version uint64 // for IfVersion

	NewVersion uint64 // of the item, of which the lower 48 bits count; 0: the next one
	Marks      Marks
}

// Write writes an item, and returns its version. Errors: ErrKey, ErrValue, ErrTooLarge,
// ErrFullItems, ErrFullIndex, ErrExists, ErrNotFound, ErrVersion; nothing has changed then.
func (p *Partition) Write(w *Write) (version uint64, err error) {
	p.settle()
	c := content{key: w.Key, value: w.Value, flags: w.Flags, expires: w.Expires,
		version: w.NewVersion, marks: w.Marks}
	if err := p.check(&c); err != nil {
		return 0, err
	}
	at := p.find(w.Hash, w.Key)
	switch {
	case w.If == IfAbsent && at.b != nil:
		return 0, ErrExists
	case w.If >= IfPresent && at.b == nil:
		return 0, ErrNotFound
	case w.If == IfVersion && p.space().version(at.pos) != w.Version:
		return 0, ErrVersion
	}
	return p.store(w.Hash, at, &c)
}

// check looks at the lengths of an item.
func (p *Partition) check(c *content) error {
	switch {
	case len(c.key) < MinKey || len(c.key) > MaxKey:
		return ErrKey
	case len(c.value) > MaxValue:
		return ErrValue
	case c.units() > uint64(len(p.space().words)):
		return ErrTooLarge
	}
	return nil
}

// Put writes an item that never expires. A cache without Readers copies small items only, and
// writes them to its index some 31 at a time, or with the next call of another method. Errors:
// ErrKey, ErrValue, ErrTooLarge, ErrFullItems, ErrFullIndex.
func (p *Partition) Put(hash KeyHash, key, value []byte) error {
	if p.mode == Cache && p.shared == nil && len(key)+len(value) <= laterItem {
		return p.putLater(hash, key, value)
	}
	_, err := p.Write(&Write{Hash: hash, Key: key, Value: value})
	return err
}

// Add is Put of a key that is not there. Errors: those of Put, and ErrExists.
func (p *Partition) Add(hash KeyHash, key, value []byte) error {
	_, err := p.Write(&Write{Hash: hash, Key: key, Value: value, If: IfAbsent})
	return err
}

// CompareAndSwap is Put of a key whose item has that version. It returns the new version. Errors:
// those of Put, ErrNotFound and ErrVersion.
func (p *Partition) CompareAndSwap(
	hash KeyHash, key, value []byte, version uint64,
) (uint64, error) {
	return p.Write(&Write{Hash: hash, Key: key, Value: value, If: IfVersion, Version: version})
}

// Delete removes a key, if its item has that version; 0 is any. Errors: ErrNotFound, ErrVersion.
func (p *Partition) Delete(hash KeyHash, key []byte, version uint64) error {
	p.settle()
	at := p.find(hash, key)
	switch {
	case at.b == nil:
		return ErrNotFound
	case version != 0 && p.space().version(at.pos) != version:
		return ErrVersion
	}
	p.stats.Deletes++
	p.remove(hash, at)
	return nil
}

// Touch sets when an item expires, and returns the item as Get does.
func (p *Partition) Touch(hash KeyHash, key []byte, expires uint32) (it Item, found bool) {
	p.settle()
	at := p.find(hash, key)
	if at.b == nil {
		p.stats.Misses++
		return Item{}, false
	}
	n := p.bucketOf(hash)
	begun := p.enter(n)
	p.space().setExpires(at.pos, expires)
	p.note(expires)
	p.leave(n, begun)
	p.hit(at, &it)
	return it, true
}

// nextVersion returns a version that no item has had. It is never 0.
func (p *Partition) nextVersion() uint64 {
	if p.version = (p.version + 1) & versionMask; p.version == 0 {
		p.version = 1
	}
	return p.version
}

// store writes an item, whose old one is at a place if there is one.
func (p *Partition) store(hash KeyHash, at place, c *content) (version uint64, err error) {
	n := p.bucketOf(hash)
	begun := p.enter(n)
	if p.mode == Cache {
		version = p.append(hash, at, c)
	} else {
		version, err = p.keepOrSweep(hash, at, c)
	}
	if p.leave(n, begun); err != nil {
		p.stats.Fulls++
		if err == ErrFullIndex {
			p.stats.IndexFulls++
		}
		return 0, err
	}
	p.stats.Puts++
	return version, nil
}

// A write that finds no room looks at so many blocks for items past their time, and tries again
// after each few that had one.
const (
	atFull = 512
	atOnce = 32
)

func (p *Partition) keepOrSweep(hash KeyHash, at place, c *content) (uint64, error) {
	version, err := p.keep(hash, at, c)
	for left := atFull; err != nil && left > 0 && p.expiredThere(); left -= atOnce {
		found := p.stats.Expired
		if err == ErrFullIndex {
			p.visit(p.bucketOf(hash))
			left = 0
		} else {
			p.Sweep(atOnce)
		}
		if p.stats.Expired > found {
			version, err = p.keep(hash, at, c)
		}
	}
	return version, err
}

// append writes an item to the log, or over its old one if that has the same size and is not old.
func (p *Partition) append(hash KeyHash, at place, c *content) uint64 {
	n, v := c.units(), p.versionFor(c.version)
	if at.b != nil {
		if p.log.size(at.pos) == n && at.age <= p.old {
			p.log.put(at.pos, c, v, 0)
			p.note(c.expires)
			return v
		}
		p.release(at.pos)
	} else {
		at.b, at.i = p.room(hash)
	}
	pos := p.log.reserve(n)
	p.log.put(pos, c, v, 0)
	p.note(c.expires)
	p.set(at.b, at.i, p.entry(hash, pos, n))
	p.stats.Items++
	p.stats.Bytes += n * unit
	p.sweep()
	return v
}

// keep writes an item to the heap: over its old one if there is room. Errors: ErrFullIndex,
// ErrFullItems.
func (p *Partition) keep(hash KeyHash, at place, c *content) (version uint64, err error) {
	h, n := &p.heap, c.units()
	b, i, have := at.b, at.i, uint64(0)
	if b != nil {
		have = h.block(at.pos)
	} else if b, i, err = p.roomInChain(hash); err != nil {
		return 0, err
	}
	pos, bits, moved, ok := at.pos, uint64(0), false, true
	if have >= n {
		bits = h.trim(pos, have, n, h.words[pos+1]&bitPrevFree)
	} else if pos, bits, ok = h.alloc(n); ok {
		moved = have > 0
	} else if have > 0 {
		pos, bits, ok = h.grow(at.pos, n)
	}
	if !ok {
		p.prune(p.bucketOf(hash)) // an extra bucket may have come for it
		return 0, ErrFullItems
	}
	version = p.versionFor(c.version)
	h.space.put(pos, c, version, bits)
	p.note(c.expires)
	p.set(b, i, p.entry(hash, pos, 0))
	p.stats.Bytes += (h.block(pos) - have) * unit
	if have == 0 {
		p.stats.Items++
	}
	if moved {
		h.free(at.pos, have)
	}
	return version, nil
}
