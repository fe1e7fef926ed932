package memcached

import (
	"strconv"

	"github.com/userspace-rpc/erpc/kv/mica"
)

// reply is the answer to a meta command.
type reply struct {
	code  string // two letters, or an error
	it    *mica.Item
	marks mica.Marks
	value []byte // behind VA
	now   uint32
	won   bool // the client is to make a new value
	sent  bool // another client is to do so already
	made  bool // an ma has made the item
}

// doMeta runs a meta command. It reports false if its answer has no room.
func (c *conn) doMeta(p *mica.Partition, o *op) bool {
	r := o.meta
	n := &c.w.counts
	var it mica.Item
	a := reply{it: &it, now: p.Now()}
	switch r.name {
	case 'g':
		if !c.metaGet(p, o, &a) {
			return false
		}
	case 'd':
		a.code, a.it = code(r.remove(p, o)), nil
		n.hit(deleteHits, deleteMisses, a.code == "HD")
	case 'a':
		err := r.count(p, o, &a)
		if a.code == "" {
			a.code = code(err)
		}
		if !a.made { // memcached counts neither a hit nor a miss
			n.arithmetic(r.mode == 'D', err)
		}
	case 's':
		err := r.put(p, o, &it)
		a.code = r.putCode(err)
		n.add(cmdSet, 1)
		if r.compare != 0 {
			n.swap(err)
		}
	case 'e':
		c.debug(p, o)
		return true
	}
	n.add(cmdMeta, 1)
	if !o.quiet || !silent(r.name, &a) {
		c.out.buf = r.append(c.out.buf, &a)
	}
	return true
}

// silent reports whether the flag q leaves an answer out.
func silent(name metaName, a *reply) bool {
	switch name {
	case 'g':
		return a.code == "EN"
	case 'a':
		return (a.code == "HD" || a.code == "VA") && !a.made
	}
	return a.code == "HD"
}

// metaGet does an mg. It reports false if its answer has no room: nothing has changed then.
func (c *conn) metaGet(p *mica.Partition, o *op, a *reply) bool {
	r, n, it := o.meta, &c.w.counts, a.it
	var found bool
	*it, a.marks, found = p.GetMarked(o.hash, o.key)
	if room := smallAnswer + len(it.Value); r.set.has('v') && !c.out.has(room) {
		c.w.room = room
		return false
	}
	if r.set.has('T') {
		n.add(cmdTouch, 1)
		n.hit(touchHits, touchMisses, found)
	}
	n.add(cmdGet, 1)
	n.hit(getHits, getMisses, found)
	switch {
	case found:
		r.found(p, o, a)
	case !r.set.has('N') || !r.stub(p, o, a):
		a.code, a.it = "EN", nil
		return true
	}
	a.code = "HD"
	if r.set.has('v') && (r.compare == 0 || r.compare != it.Version) {
		a.code, a.value = "VA", it.Value
	}
	return true
}

// stub makes an item without a value, which the client is to make.
func (r *request) stub(p *mica.Partition, o *op, a *reply) bool {
	expire := expires(p.Now(), r.vivify)
	if r.set.has('T') {
		expire = expires(p.Now(), r.life)
	}
	v, err := p.Write(&mica.Write{Hash: o.hash, Key: o.key, Expires: expire, NewVersion: r.version,
		Marks: mica.Claimed})
	*a.it = mica.Item{Version: v, Expires: expire}
	a.won = err == nil
	return a.won
}

// found does what an mg does to the item it finds. The value stays where it is.
func (r *request) found(p *mica.Partition, o *op, a *reply) {
	it := a.it
	var change mica.Change
	if r.set.has('T') {
		change.Expire, change.Expires = true, expires(p.Now(), r.life)
	}
	left := it.Expires
	if change.Expire {
		left = change.Expires
	}
	a.sent = a.marks&mica.Claimed != 0
	stale := a.marks&mica.Stale != 0
	soon := r.set.has('R') && left != 0 && left < expires(p.Now(), r.recache)
	if a.won = !a.sent && (stale || soon); a.won {
		change.Set |= mica.Claimed
	}
	if a.marks&mica.Fetched == 0 && !r.set.has('u') {
		change.Set |= mica.Fetched
	}
	if change == (mica.Change{}) {
		return
	}
	changed, _ := p.Change(o.hash, o.key, change) // it is there
	it.Value = changed.Value
	if change.Expire && !r.early {
		it.Expires = change.Expires
	}
}

// remove does an md.
func (r *request) remove(p *mica.Partition, o *op) error {
	if !r.set.has('I') && !r.set.has('x') {
		return p.Delete(o.hash, o.key, r.compare)
	}
	it, marks, found := p.GetMarked(o.hash, o.key)
	switch {
	case !found:
		return mica.ErrNotFound
	case r.compare != 0 && r.compare != it.Version:
		return mica.ErrVersion
	}
	if r.set.has('x') {
		w := mica.Write{Hash: o.hash, Key: o.key, NewVersion: it.Version, Marks: marks}
		if r.version != 0 {
			w.NewVersion = r.version
		}
		if r.set.has('T') {
			w.Expires = expires(p.Now(), r.life)
		}
		if _, err := p.Write(&w); err != nil || !r.set.has('I') {
			return err
		}
	}
	_, found = p.Change(o.hash, o.key, mica.Change{Set: mica.Stale, Clear: mica.Claimed,
		NewVersion: r.version, Renew: true, Expire: r.set.has('T'), Expires: expires(p.Now(), r.life)})
	if !found { // it has expired
		return mica.ErrNotFound
	}
	return nil
}

// count does an ma.
func (r *request) count(p *mica.Partition, o *op, a *reply) error {
	_, _, err := p.Increment(o.hash, o.key, r.delta, r.mode == 'D', r.compare)
	switch {
	case err == mica.ErrNotFound && r.set.has('N'):
		var digits [20]byte
		_, err = p.Write(&mica.Write{Hash: o.hash, Key: o.key, NewVersion: r.version,
			Value: strconv.AppendUint(digits[:0], r.initial, 10), Expires: expires(p.Now(), r.vivify)})
		if err != nil {
			return err
		}
		a.made = true
	case err != nil:
		return err
	}
	if !a.made && (r.version != 0 || r.set.has('T')) {
		_, _ = p.Change(o.hash, o.key, mica.Change{NewVersion: r.version, Expire: r.set.has('T'),
			Expires: expires(p.Now(), r.life)}) // it is there
	}
	*a.it, _ = p.Get(o.hash, o.key)
	if !r.set.has('v') {
		return nil
	}
	a.value = a.it.Value
	for n := len(a.value); n > 0 && a.value[n-1] == ' '; n = len(a.value) {
		a.value = a.value[:n-1]
	}
	a.code = "VA"
	return nil
}

// put does an ms. The item has what the answer says of it.
func (r *request) put(p *mica.Partition, o *op, it *mica.Item) (err error) {
	it.Value, it.Flags = o.value, r.client
	w := mica.Write{Hash: o.hash, Key: o.key, Value: o.value, Flags: r.client,
		Expires: expires(p.Now(), r.life), Version: r.compare, NewVersion: r.version}
	if r.compare != 0 {
		w.If = mica.IfVersion
	}
	switch r.mode {
	case 'A', 'P':
		return r.concat(p, o, it)
	case 'E':
		w.If = mica.IfAbsent
	case 'R':
		if r.compare == 0 {
			w.If = mica.IfPresent
		}
	}
	if r.set.has('I') && w.If == mica.IfVersion {
		old, marks, found := p.GetMarked(o.hash, o.key)
		if found && r.compare%noVersion < old.Version { // the value is late, and better than none
			w.If, w.Marks, w.Expires = mica.Always, mica.Stale|marks&mica.Claimed, old.Expires
		}
	}
	it.Version, err = p.Write(&w)
	return err
}

// concat does an ms that appends or prepends.
func (r *request) concat(p *mica.Partition, o *op, it *mica.Item) (err error) {
	it.Version, err = p.Concat(o.hash, o.key, o.value, r.mode == 'P', r.compare)
	if err == mica.ErrNotFound && r.set.has('N') && r.compare == 0 {
		it.Version, err = p.Write(&mica.Write{Hash: o.hash, Key: o.key, Value: o.value,
			Flags: r.client, Expires: expires(p.Now(), r.vivify), NewVersion: r.version})
		return err
	}
	if err == nil && r.version != 0 {
		_, _ = p.Change(o.hash, o.key, mica.Change{NewVersion: r.version}) // it is there
		it.Version = r.version
	}
	if err == nil && r.set.has('s') { // that of both
		*it, _ = p.Get(o.hash, o.key)
	}
	return err
}

// putCode returns what the result of an ms is called.
func (r *request) putCode(err error) string {
	adds := r.mode == 'A' || r.mode == 'P'
	if err == mica.ErrNotFound && (r.compare == 0 || adds) {
		return "NS"
	}
	return code(err)
}

// append appends an answer: the code, the fields that flags ask for, and the value. If there is no
// item, flags that the client sent come back as they are, and others are left out.
func (r *request) append(b []byte, a *reply) []byte {
	b = append(b, a.code...)
	if len(a.code) > 2 {
		return append(b, "\r\n"...)
	}
	it := a.it
	if a.code == "NF" || a.code == "EX" || a.code == "NS" {
		if r.name != 's' {
			it = nil
		}
	}
	if a.code == "VA" {
		b = strconv.AppendUint(append(b, ' '), uint64(len(a.value)), 10)
	}
	for rest := r.flags; len(rest) > 0; {
		var f []byte
		if f, rest = cut(rest); len(f) == 0 {
			continue
		}
		switch f[0] {
		case 'k':
			b = append(append(b, " k"...), r.text...)
		case 'O', 'b':
			b = append(append(b, ' '), f...)
		case 'c', 'f', 'h', 's', 't':
			if it != nil {
				b = a.field(append(b, ' ', f[0]), f[0], it)
			}
		}
	}
	if it != nil && r.name == 'g' {
		b = a.appendMarks(b)
	}
	b = append(b, "\r\n"...)
	if a.code == "VA" {
		b = append(append(b, a.value...), "\r\n"...)
	}
	return b
}

// appendMarks appends whether the value is stale, and who makes a new one.
func (a *reply) appendMarks(b []byte) []byte {
	if a.sent {
		b = append(b, " Z"...)
	}
	if a.marks&mica.Stale != 0 {
		b = append(b, " X"...)
	}
	if a.won {
		b = append(b, " W"...)
	}
	return b
}

func (a *reply) field(b []byte, f byte, it *mica.Item) []byte {
	switch f {
	case 'c':
		return strconv.AppendUint(b, it.Version, 10)
	case 'f':
		return strconv.AppendUint(b, uint64(it.Flags), 10)
	case 'h':
		return append(b, '0'+byte(a.marks/mica.Fetched))
	case 's':
		return strconv.AppendUint(b, uint64(len(it.Value)), 10)
	}
	if it.Expires == 0 {
		return append(b, "-1"...)
	}
	return strconv.AppendInt(b, int64(it.Expires)-int64(a.now), 10)
}

// debug does an me.
func (c *conn) debug(p *mica.Partition, o *op) {
	it, marks, found := p.GetMarked(o.hash, o.key)
	if !found {
		c.answer(o, "EN")
		return
	}
	b := append(append(c.out.buf, "ME "...), o.meta.text...)
	b = append(b, " exp="...)
	if it.Expires == 0 {
		b = append(b, "-1"...)
	} else {
		b = strconv.AppendInt(b, int64(it.Expires)-int64(p.Now()), 10)
	}
	b = strconv.AppendUint(append(b, " cas="...), it.Version, 10)
	fetched := " fetch=no"
	if marks&mica.Fetched != 0 {
		fetched = " fetch=yes"
	}
	b = append(append(b, fetched...), " cls=1 size="...)
	b = strconv.AppendInt(b, int64(len(o.key)+len(it.Value)), 10)
	c.out.buf = append(b, "\r\n"...)
}
