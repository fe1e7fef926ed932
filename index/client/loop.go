package client

import (
	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/index/message"
)

// Result is the end of one operation of a Loop.
type Result struct {
	Tag   uint64 // as the operation was given it
	Err   error  // index.ErrKeyTooLong, those of package message, those of the RPC
	Value uint64 // of the key, or the sum
	Found bool   // the key was there
	// Of Scan: keys that were visited. Of SumAfter: keys in the sum; if More is set the server has
	// stopped at its limit: go on after Last, which is valid until the Done returns.
	Count uint64
	More  bool
	Last  []byte
}

// Done is called in the thread of the loop when an operation ends. It may start others.
type Done func(Result)

// Loop does operations in the thread of an Rpc, which alone may use it.
type Loop struct {
	rpc    *erpc.Rpc
	ranges Ranges[*erpc.Session]
	ops    []operation
	free   []uint32
	onDone erpc.Continuation
}

// operation is one under way.
type operation struct {
	done Done
	tag  uint64
	typ  uint8
	scan *scan
}

// NewLoop returns a Loop on an Rpc and its sessions with the servers, which stay the application's.
// The error is ErrRanges.
func NewLoop(r *erpc.Rpc, ranges Ranges[*erpc.Session]) (*Loop, error) {
	if err := ranges.check(); err != nil {
		return nil, err
	}
	l := &Loop{rpc: r, ranges: ranges}
	l.onDone = l.ended
	return l, nil
}

// Pending returns how many operations are under way.
func (l *Loop) Pending() int { return len(l.ops) - len(l.free) }

// Get asks for the value of key. Errors of this and the following methods are those of
// erpc.Rpc.Alloc and EnqueueRequest, and index.ErrKeyTooLong; then done is not called.
func (l *Loop) Get(key []byte, tag uint64, done Done) error {
	var buf [message.MaxRequest]byte
	req, err := message.AppendKey(buf[:0], key)
	return l.start(message.Get, key, req, err, tag, done)
}

// Put stores a value; the Result has the one that it replaces.
func (l *Loop) Put(key []byte, value uint64, tag uint64, done Done) error {
	var buf [message.MaxRequest]byte
	req, err := message.AppendPut(buf[:0], key, value)
	return l.start(message.Put, key, req, err, tag, done)
}

// PutIfAbsent stores a value if key has none; otherwise the Result has the one that is there.
func (l *Loop) PutIfAbsent(key []byte, value uint64, tag uint64, done Done) error {
	var buf [message.MaxRequest]byte
	req, err := message.AppendPut(buf[:0], key, value)
	return l.start(message.Absent, key, req, err, tag, done)
}

// Delete removes a key; the Result has its value.
func (l *Loop) Delete(key []byte, tag uint64, done Done) error {
	var buf [message.MaxRequest]byte
	req, err := message.AppendKey(buf[:0], key)
	return l.start(message.Delete, key, req, err, tag, done)
}

// SumAfter adds the values of up to n keys that come after key, in the range of key and up to the
// limit of its server.
func (l *Loop) SumAfter(key []byte, n uint32, tag uint64, done Done) error {
	var buf [message.MaxRequest]byte
	req, err := message.Page{Key: key, After: true, Count: n}.Append(buf[:0])
	return l.start(message.Sum, key, req, err, tag, done)
}

func (l *Loop) start(typ uint8, key, req []byte, err error, tag uint64, done Done) error {
	if err != nil {
		return err
	}
	return l.send(l.ranges.find(key), req, operation{done: done, tag: tag, typ: typ})
}

// send asks the server of range at.
func (l *Loop) send(at int, req []byte, o operation) error {
	b, err := l.rpc.Alloc(len(req))
	if err != nil {
		return err
	}
	copy(b.Data(), req)
	if len(l.free) == 0 {
		l.free = append(l.free, uint32(len(l.ops)))
		l.ops = append(l.ops, operation{})
	}
	i := l.free[len(l.free)-1]
	l.free = l.free[:len(l.free)-1]
	l.ops[i] = o
	_, err = l.rpc.EnqueueRequest(l.ranges[at].Server,
		erpc.Request{Type: o.typ, Req: b, Done: l.onDone, Tag: uint64(i)})
	if err != nil {
		b.Free()
		l.ops[i] = operation{}
		l.free = append(l.free, i)
	}
	return err
}

// ended takes a response.
func (l *Loop) ended(c erpc.Completion) {
	o := l.ops[c.Tag]
	l.ops[c.Tag] = operation{}
	l.free = append(l.free, uint32(c.Tag))
	c.Req.Free()
	r := Result{Tag: o.tag, Err: wrong(c.Err)}
	switch {
	case c.Err != nil:
	case o.typ == message.Sum:
		var t message.Total
		t, r.Err = message.ParseTotal(c.Resp.Data())
		r.Value, r.Count, r.More, r.Last = t.Sum, uint64(t.Count), t.More, t.Last
	case o.typ == message.Scan:
		var goesOn bool
		if goesOn, r.Err = l.scanned(o, c.Resp.Data()); goesOn {
			c.Resp.Free()
			return
		}
	default:
		r.Value, r.Found, r.Err = message.ParseValue(c.Resp.Data())
	}
	if o.scan != nil {
		r.Count = o.scan.seen
	}
	o.done(r)
	if c.Resp != nil {
		c.Resp.Free()
	}
}
