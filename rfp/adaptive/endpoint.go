package adaptive

import (
	"errors"
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/rfp"
)

// ErrConfig means that an endpoint cannot be made like that.
var ErrConfig = errors.New("adaptive: bad config")

// Way makes calls to a server. Its methods are those of rfp.Client; a way that has ended is not
// Ready, and Send returns why.
type Way interface {
	Send(q *rfp.Call) error
	Poll(now rfp.Time) int
	Ready() bool
}

// fixed is a client in one mode.
type fixed struct {
	*rfp.Client
	mode rfp.Mode
}

// Send sends a call in the way's mode.
func (f fixed) Send(q *rfp.Call) error {
	f.SetMode(q.Kind, f.mode)
	return f.Client.Send(q)
}

// Modes returns the two ways of a client whose configured mode is rfp.Fetch or rfp.Reply: results
// that it fetches, and results that the server writes.
func Modes(c *rfp.Client) (fetch, reply Way) {
	return fixed{c, rfp.Fetch}, fixed{c, rfp.Reply}
}

// Endpoint makes calls by one of several ways.
type Endpoint struct {
	ways     []Way
	clock    func() rfp.Time
	seed     uint64
	choosers [256]*Chooser
	free     *pending
}

// pending is a call under way.
type pending struct {
	e     *Endpoint
	next  *pending
	way   int
	kind  uint8
	begun rfp.Time
	tag   uint64
	done  func(tag uint64, resp []byte, err error)
	end   func(tag uint64, resp []byte, err error)
}

// New returns an endpoint that owns none of its ways. Endpoints of one machine should have
// different seeds. clock nil is this machine's. Errors: ErrConfig.
func New(seed uint64, clock func() rfp.Time, ways ...Way) (*Endpoint, error) {
	if len(ways) < 1 || len(ways) > MaxWays {
		return nil, fmt.Errorf("%w: %d ways, want 1 to %d", ErrConfig, len(ways), MaxWays)
	}
	if clock == nil {
		clock = monotime.Now
	}
	return &Endpoint{ways: ways, clock: clock, seed: seed}, nil
}

// Chooser returns the one for a request type.
func (e *Endpoint) Chooser(kind uint8) *Chooser {
	c := e.choosers[kind]
	if c == nil {
		c = NewChooser(len(e.ways), e.seed<<8+uint64(kind))
		e.choosers[kind] = c
	}
	return c
}

// Ready reports whether some way takes a call now.
func (e *Endpoint) Ready() bool {
	for _, w := range e.ways {
		if w.Ready() {
			return true
		}
	}
	return false
}

// Send takes a call. If the way that is chosen takes none, or not this one, another one does, and
// the Chooser learns of it. Errors, without a call
// of Done: those of the ways, rfp.ErrBusy if none is ready and one of them has not ended.
func (e *Endpoint) Send(q *rfp.Call) error {
	p := e.free
	if p == nil {
		p = &pending{e: e}
		p.end = p.ended
	} else {
		e.free = p.next
	}
	p.kind, p.tag, p.done, p.begun = q.Kind, q.Tag, q.Done, e.clock()
	own := *q
	own.Done = p.end
	chooser := e.Chooser(q.Kind)
	first := chooser.Next()
	if err := e.offer(p, &own, first); err != nil {
		chooser.Dropped(first)
		p.done = nil
		p.next, e.free = e.free, p
		return err
	}
	if p.way != first {
		chooser.Refused(first)
	}
	return nil
}

// offer offers a call to the way first, then to the others, until one takes it: p.way.
func (e *Endpoint) offer(p *pending, q *rfp.Call, first int) (err error) {
	for i := range e.ways {
		p.way = (first + i) % len(e.ways)
		w := e.ways[p.way]
		if !w.Ready() && len(e.ways) > 1 {
			continue
		}
		got := w.Send(q)
		if got == nil {
			return nil
		}
		if err == nil || errors.Is(err, rfp.ErrBusy) {
			err = got
		}
	}
	if err == nil {
		return e.unready(p, q)
	}
	return err
}

// unready asks ways of which none is ready for the reason: one that is busy will take calls again,
// one that has ended will not.
func (e *Endpoint) unready(p *pending, q *rfp.Call) (err error) {
	for i, w := range e.ways {
		p.way = i
		got := w.Send(q)
		if got == nil {
			return nil // it has become ready
		}
		if err == nil || errors.Is(got, rfp.ErrBusy) {
			err = got
		}
	}
	return err
}

// ended is the end of a call. One that ended at once, for a way has ended, says nothing of its
// time.
func (p *pending) ended(_ uint64, resp []byte, err error) {
	e, done, tag := p.e, p.done, p.tag
	took := e.clock().Sub(p.begun)
	if err != nil && !errors.As(err, new(rfp.RemoteError)) {
		took = max(took, time.Millisecond)
	}
	e.choosers[p.kind].Ended(p.way, took)
	p.done = nil
	p.next, e.free = e.free, p
	done(tag, resp, err)
}

// Poll makes progress on all ways and returns how many calls have ended.
func (e *Endpoint) Poll(now rfp.Time) (ended int) {
	for _, w := range e.ways {
		ended += w.Poll(now)
	}
	return ended
}
