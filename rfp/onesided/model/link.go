package model

import (
	"errors"
	"time"

	"github.com/userspace-rpc/erpc/rfp/onesided"
)

// queue bounds the operations of a link under way.
const queue = 1024

// gone is after how long an adapter gives a silent peer up.
const gone = time.Millisecond

// ErrConfig means that two sides do not belong to one network.
var ErrConfig = errors.New("model: machines of two networks")

// Link is one side of a connection.
type Link struct {
	m      *Machine
	peer   *Link
	thread *Thread
	mem    [][]byte
	specs  []onesided.Spec
	done   []onesided.Completion // to be polled
	arrive Time                  // of the last operation at the peer
	under  []*flight             // operations under way, in the order of posting
	sends  bool                  // WRITEs are datagrams
	broken bool                  // the queue pair is in error
	lost   bool                  // an operation got no answer, which Poll tells
	err    error
}

// flight is an operation under way.
type flight struct {
	op   onesided.Op
	data []byte // what a WRITE carries or a READ saw
	over bool   // it has taken place, or its link has ended
}

var _ onesided.Link = (*Link)(nil)

// Connect joins two machines by a reliable connection. Each side has the regions that its list
// says. Errors: onesided.ErrSpec, ErrConfig.
func Connect(a, b *Machine, ofA, ofB []onesided.Spec) (*Link, *Link, error) {
	if a.net != b.net {
		return nil, nil, ErrConfig
	}
	if err := errors.Join(onesided.CheckSpecs(ofA), onesided.CheckSpecs(ofB)); err != nil {
		return nil, nil, err
	}
	x, y := side(a, ofA), side(b, ofB)
	x.peer, y.peer = y, x
	a.links, b.links = append(a.links, x), append(b.links, y)
	return x, y, nil
}

func side(m *Machine, specs []onesided.Spec) *Link {
	l := &Link{m: m, specs: specs}
	for _, s := range specs {
		l.mem = append(l.mem, onesided.Memory(s.Size))
	}
	return l
}

// Bind gives the link to a thread, which is woken when something happens on this side and pays
// for what it posts.
func (l *Link) Bind(t *Thread) { l.thread = t }

// Datagrams makes each WRITE of this side travel as a datagram that the peer's adapter puts where
// the WRITE would: at the rates OutSend and InSend, and complete when it has left. It is the
// transport of HERD's responses and of eRPC, whose loss is not modelled. READs stay what they are.
func (l *Link) Datagrams() { l.sends = true }

// Share puts other memory in the place of an own region, of the same size: several links of a
// machine may so have one. It is for before the first operation.
func (l *Link) Share(i int, mem []byte) { l.mem[i] = mem[:l.specs[i].Size] }

// Region returns own memory.
func (l *Link) Region(i int) []byte { return l.mem[i] }

// Peer returns the peer's regions.
func (l *Link) Peer() []onesided.Spec { return l.peer.specs }

// View returns nil: nothing is seen in place.
func (l *Link) View(int) []byte { return nil }

// Window returns nil.
func (l *Link) Window(int) []byte { return nil }

// Err says why the link has ended.
func (l *Link) Err() error { return l.err }

// Post starts operations.
func (l *Link) Post(b *onesided.Batch) error {
	if l.err != nil {
		return l.err
	}
	for i := range b.Ops {
		if err := b.Ops[i].Check(l.specs, l.peer.specs); err != nil {
			return err
		}
	}
	if len(l.under)+len(b.Ops) > queue {
		return onesided.ErrFull
	}
	at := l.m.net.now
	for _, op := range b.Ops {
		if l.thread != nil {
			l.thread.Spend(l.m.net.p.Post)
			at = l.thread.clock
		}
		f := &flight{op: op, data: l.payload(&op)}
		l.under = append(l.under, f)
		l.m.net.At(at, func() { l.issue(f) })
	}
	l.flush()
	return nil
}

// Poll takes completions.
func (l *Link) Poll(list []onesided.Completion) int {
	if l.lost || l.broken && len(l.under) > 0 {
		l.fail(onesided.ErrPeer)
	}
	n := copy(list, l.done)
	l.done = l.done[:copy(l.done, l.done[n:])]
	return n
}

// Close ends the link. The peer learns it as by the end of a process.
func (l *Link) Close() error {
	l.fail(onesided.ErrClosed)
	l.m.net.At(l.m.net.now.Add(l.m.net.oneway), func() { l.peer.fail(onesided.ErrPeer) })
	return nil
}

// Break ends both sides at once.
func (l *Link) Break(why error) {
	l.fail(why)
	l.peer.fail(why)
}

// BreakQueue puts the queue pair of this side into the error state. Nobody is told: this side
// learns it from the first operation under way or posted later, by Poll, and the peer from its own,
// which are not answered.
func (l *Link) BreakQueue() {
	l.broken = true
	l.flush()
}

// flush ends a side whose queue pair is in error, if operations are there to fail.
func (l *Link) flush() {
	if l.broken && len(l.under) > 0 {
		l.wake()
	}
}

// payload copies what a WRITE carries: the adapter may read it at any time from now on.
func (l *Link) payload(op *onesided.Op) []byte {
	if op.Read {
		return nil
	}
	return append([]byte(nil), l.mem[op.Local][op.At:op.At+op.Size]...)
}

// lines is how many lines of 64 bytes a processor writes to the adapter to post an operation.
func (l *Link) lines(op *onesided.Op) int {
	header, payload := requestWrite, segment
	if l.sends && !op.Read {
		header = requestSend
	}
	if !op.Read && op.Size <= l.m.net.p.Inline {
		payload = inlineHeader + op.Size
	}
	return (header + payload + line - 1) / line
}

// miss is the time that the own adapter takes to fetch this connection's context, if it does not
// hold it. Datagrams need none.
func (l *Link) miss(datagram bool) picos {
	if datagram || l.m.held.has(l, l.m.net.rng) {
		return 0
	}
	return 1000 * picos(l.m.nic.Miss)
}

// issue is the way through the own adapter.
func (l *Link) issue(f *flight) {
	m, net := l.m, l.m.net
	if m.dead || f.over || l.broken {
		return
	}
	rate, extra := m.nic.OutWrite, time.Duration(0)
	switch {
	case f.op.Read:
		rate = m.nic.OutRead
	case l.sends:
		rate = m.nic.OutSend
	}
	if !f.op.Read && f.op.Size > net.p.Inline {
		extra = net.p.Fetch
	}
	m.stats.Out++
	m.stats.OutBytes += uint64(len(f.data))
	at := net.now
	if m.nic.PIO > 0 {
		at = m.pio.serve(at, picos(l.lines(&f.op))*per(m.nic.PIO))
	}
	wire := net.wire(len(f.data))
	sent := m.tx.serve(m.out.serve(at, per(rate)+l.miss(l.sends && !f.op.Read)), wire)
	// The first bit is there while the last one is still sent.
	l.arrive = max(sent.Add(net.oneway+extra-wire.duration()), l.arrive)
	net.At(l.arrive, func() { l.serve(f) })
	if l.sends && !f.op.Read {
		l.complete(f, sent)
	}
}

// serve is the way through the peer's adapter.
func (l *Link) serve(f *flight) {
	peer, net := l.peer, l.m.net
	m := peer.m
	if m.dead || peer.err != nil || l.err != nil {
		net.At(net.now.Add(gone), func() { l.fail(onesided.ErrPeer) })
		return
	}
	if peer.broken || l.broken {
		net.At(net.now.Add(gone), func() { l.lost = true; l.wake() })
		return
	}
	rate := m.nic.InWrite
	switch {
	case f.op.Read:
		rate = m.nic.InRead
	case l.sends:
		rate = m.nic.InSend
	}
	m.stats.In++
	m.stats.InBytes += uint64(len(f.data))
	there := m.rx.serve(net.now, net.wire(len(f.data)))
	begun := max(m.in.ready(), there)
	done := m.in.serve(there, per(rate)+peer.miss(l.sends && !f.op.Read))
	if f.op.Read {
		l.sample(f, begun, done)
		net.At(done, func() { l.answer(f) })
		return
	}
	l.apply(f, begun, done)
	net.At(done, func() {
		if peer.thread != nil {
			peer.thread.Wake()
		}
		if !l.sends {
			l.complete(f, net.now.Add(net.oneway))
		}
	})
}

// apply makes a WRITE visible at time done, or from begun on if memory is torn.
func (l *Link) apply(f *flight, begun, done Time) {
	net, to := l.m.net, l.peer.mem[f.op.Remote][f.op.To:f.op.To+f.op.Size]
	if net.torn {
		if k := net.rng.IntN(f.op.Size); k < f.op.Size-8 {
			first := begun.Add(time.Duration(net.rng.Int64N(int64(done.Sub(begun)) + 1)))
			net.At(first, func() { copy(to[:k], f.data) })
		}
	}
	net.At(done, func() { onesided.Copy(to, f.data) })
}

// sample takes what a READ sees: all at time done, or two halves at two times.
func (l *Link) sample(f *flight, begun, done Time) {
	net, from := l.m.net, l.peer.mem[f.op.Remote][f.op.To:f.op.To+f.op.Size]
	f.data = make([]byte, f.op.Size)
	if !net.torn {
		net.At(done, func() { copy(f.data, from) })
		return
	}
	k := net.rng.IntN(f.op.Size+1) &^ 7
	one, two := begun, done
	if net.rng.IntN(2) == 0 {
		one, two = two, one
	}
	net.At(one, func() { copy(f.data[:k], from[:k]) })
	net.At(two, func() { copy(f.data[k:], from[k:]) })
}

// answer sends what a READ saw.
func (l *Link) answer(f *flight) {
	m, net := l.peer.m, l.m.net
	if m.dead {
		return
	}
	m.stats.OutBytes += uint64(len(f.data))
	wire := net.wire(len(f.data))
	first := m.tx.serve(net.now, wire).Add(net.oneway - wire.duration())
	net.At(first, func() { l.complete(f, l.m.rx.serve(net.now, wire)) })
}

// complete ends an operation at time at, or with the last one before it, if that is later.
func (l *Link) complete(f *flight, at Time) {
	l.m.net.At(at, func() {
		if l.m.dead || f.over {
			return
		}
		f.over = true
		for len(l.under) > 0 && l.under[0].over {
			f := l.under[0]
			l.under = l.under[1:]
			if f.op.Read {
				copy(l.mem[f.op.Local][f.op.At:], f.data)
			}
			l.tell(f)
		}
	})
}

// tell gives the completion that an operation wants.
func (l *Link) tell(f *flight) {
	if f.op.Signal {
		l.done = append(l.done, onesided.Completion{ID: f.op.ID, Err: l.err})
	}
	if f.op.Signal {
		l.wake()
	}
}

func (l *Link) wake() {
	if l.thread != nil {
		l.thread.Wake()
	}
}

// fail ends the link, and all that is under way.
func (l *Link) fail(err error) {
	if l.err != nil {
		return
	}
	l.err = err
	for _, f := range l.under {
		f.over = true
		l.tell(f)
	}
	l.under = nil
	l.wake()
}
