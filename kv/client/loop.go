package client

import (
	"fmt"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kv/message"
	"github.com/userspace-rpc/erpc/kv/mica"
)

// Sessions are those with one server, one per partition in their order.
type Sessions struct {
	Name       string // of the server, as all clients have it
	Partitions []*erpc.Session
}

// Result is the end of one operation of a Loop. Errors are those of Client.Get and Client.Put.
type Result = message.Result

// Done is called in the thread of the loop when an operation ends. It may start others.
type Done = message.Done

// Loop does operations in the thread of an Rpc, which alone may use it.
type Loop struct {
	rpc     *erpc.Rpc
	servers []Sessions
	hashes  []uint64
	ops     []operation
	free    []uint32
	multis  []*multi // not in use
	onDone  erpc.Continuation
}

// operation is one under way.
type operation struct {
	done  Done
	tag   uint64
	typ   uint8
	multi *multi // of MultiGet, in place of done and tag
}

// NewLoop returns a Loop on an Rpc and its sessions, which stay the application's. The error is
// ErrConfig.
func NewLoop(r *erpc.Rpc, servers ...Sessions) (*Loop, error) {
	l := &Loop{rpc: r, servers: servers}
	for _, s := range servers {
		if len(s.Partitions) == 0 {
			return nil, fmt.Errorf("%w: no sessions with %s", ErrConfig, s.Name)
		}
		l.hashes = append(l.hashes, nameHash(s.Name))
	}
	if len(servers) == 0 {
		return nil, fmt.Errorf("%w: no server", ErrConfig)
	}
	l.onDone = l.ended
	return l, nil
}

// Pending returns how many operations are under way.
func (l *Loop) Pending() int { return len(l.ops) - len(l.free) }

// Get asks for the item of key. Errors of this and the following methods are those of
// erpc.Rpc.Alloc and EnqueueRequest, mica.ErrKey and mica.ErrValue; then done is not called.
func (l *Loop) Get(key []byte, tag uint64, done Done) error {
	k := message.Keyed{Hash: mica.Hash(key), Key: key}
	b, err := l.rpc.Alloc(k.Size(message.Get))
	if err != nil {
		return err
	}
	if _, err := k.Append(b.Data()[:0], message.Get); err != nil {
		b.Free()
		return err
	}
	return l.start(message.Get, k.Hash, b, tag, done)
}

// Put stores a value for good; the Result has its version.
func (l *Loop) Put(key, value []byte, tag uint64, done Done) error {
	return l.Write(&message.Item{Key: key, Value: value}, tag, done)
}

// Write stores an item, whose Hash is set here; the Result has its version.
func (l *Loop) Write(w *message.Item, tag uint64, done Done) error {
	w.Hash = mica.Hash(w.Key)
	b, err := l.rpc.Alloc(w.Size())
	if err != nil {
		return err
	}
	if _, err := w.Append(b.Data()[:0]); err != nil {
		b.Free()
		return err
	}
	return l.start(message.Write, w.Hash, b, tag, done)
}

// Delete removes a key.
func (l *Loop) Delete(key []byte, tag uint64, done Done) error {
	k := message.Keyed{Hash: mica.Hash(key), Key: key}
	var buf [message.MaxSmall]byte
	req, err := k.Append(buf[:0], message.Delete)
	if err != nil {
		return err
	}
	b, err := l.rpc.Alloc(len(req))
	if err != nil {
		return err
	}
	copy(b.Data(), req)
	return l.start(message.Delete, k.Hash, b, tag, done)
}

// start sends a request, which it owns from now on.
func (l *Loop) start(typ uint8, hash uint64, b *erpc.MsgBuffer, tag uint64, done Done) error {
	return l.send(l.sessionOf(hash), b, operation{done: done, tag: tag, typ: typ})
}

// sessionOf returns the session with the partition of a hash.
func (l *Loop) sessionOf(hash uint64) *erpc.Session {
	parts := l.servers[choose(l.hashes, hash)].Partitions
	return parts[mica.PartitionOf(hash, len(parts))]
}

// send sends the request of an operation, and frees it if it cannot.
func (l *Loop) send(s *erpc.Session, b *erpc.MsgBuffer, o operation) error {
	if len(l.free) == 0 {
		l.free = append(l.free, uint32(len(l.ops)))
		l.ops = append(l.ops, operation{})
	}
	i := l.free[len(l.free)-1]
	l.free = l.free[:len(l.free)-1]
	l.ops[i] = o
	_, err := l.rpc.EnqueueRequest(s,
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
	if o.multi != nil {
		l.endedMulti(o.multi, &c)
		return
	}
	c.Req.Free()
	r := Result{Tag: o.tag, Err: known(c.Err)}
	if c.Err == nil {
		switch o.typ {
		case message.Get:
			r.Value, r.Err = message.ParseFound(c.Resp.Data())
		case message.Write:
			var n [1]uint64
			r.Err = message.ParseNumbers(c.Resp.Data(), n[:])
			r.Version = n[0]
		default:
			r.Err = message.ParseNumbers(c.Resp.Data(), nil)
		}
	}
	o.done(r)
	if c.Resp != nil {
		c.Resp.Free()
	}
}
