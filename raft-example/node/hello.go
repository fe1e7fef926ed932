package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
)

// The errors of members that do not go together. Nothing that one sends counts at the other.
var (
	ErrFormat = errors.New("node: no format of messages and entries that both know: " +
		"start the older program of the two anew in a newer version")
	ErrLease = errors.New("node: another lease, or a lease and another tick, so reads may be stale: " +
		"give all members the same --lease and --tick (raft-kv tick changes both while they run)")
	ErrRole = errors.New("node: the sender has another role than a member")

	errUnsaid = errors.New("node: the sender has not said hello in this session")
)

// RoleMember is the role of all that speak Raft.
const RoleMember = 1

// Formats is a range of formats of messages and entries, see kv.Format.
type Formats struct {
	Min uint32 `json:"min"`
	Max uint32 `json:"max"`
}

// Hello describes a member. A member sends it first in each session that it opens, and the other
// one answers with its own. It stands behind the header, whose log identity is the sender's:
//
//	40 formats min u32 · 44 max u32 · 48 tick u64 ns · 56 lease u64 ns · 64 role u32
//	68 agreed u32: 1 or 0
//
// A program of commit 4085675 says none, and is of format 0. What others send says in byte 1 of the
// header that there was a Hello, so that nothing counts that overtakes it.
type Hello struct {
	Formats     Formats
	Tick, Lease time.Duration
	Role        uint32
	Agreed      bool // its log says the tick and the lease, see replica.Timing
}

const (
	helloSize = headerSize + 32
	saysHello = 1 << 8 // in the verdict of a request
)

func (n *Node) hello() Hello {
	t := n.rep.Timing()
	return Hello{Formats{n.needs(), n.cfg.Formats.Max}, t.Tick, t.Lease, RoleMember, t.Agreed}
}

func (h *Hello) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, h.Formats.Min)
	b = binary.LittleEndian.AppendUint32(b, h.Formats.Max)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.Tick))
	b = binary.LittleEndian.AppendUint64(b, uint64(h.Lease))
	b = binary.LittleEndian.AppendUint32(b, h.Role)
	agreed := uint32(0)
	if h.Agreed {
		agreed = 1
	}
	return binary.LittleEndian.AppendUint32(b, agreed)
}

// parseHello reads what follows the header. More may follow in later versions.
func parseHello(b []byte) (h Hello, ok bool) {
	if len(b) < helloSize {
		return h, false
	}
	h.Formats = Formats{binary.LittleEndian.Uint32(b[40:]), binary.LittleEndian.Uint32(b[44:])}
	h.Tick = time.Duration(binary.LittleEndian.Uint64(b[48:]))
	h.Lease = time.Duration(binary.LittleEndian.Uint64(b[56:]))
	h.Role = binary.LittleEndian.Uint32(b[64:])
	h.Agreed = binary.LittleEndian.Uint32(b[68:]) == 1
	return h, h.Formats.Min <= h.Formats.Max
}

// suits says why two members do not go together; it says the same at both. Without leases their
// ticks may differ, and so may all if the log of one says them: the other one gets that log.
func (h *Hello) suits(o *Hello) error {
	switch {
	case h.Role != o.Role:
		return fmt.Errorf("%w: %d, here %d", ErrRole, o.Role, h.Role)
	case h.Formats.Max < o.Formats.Min || o.Formats.Max < h.Formats.Min:
		return fmt.Errorf("%w: it has %d to %d, this one %d to %d", ErrFormat, o.Formats.Min,
			o.Formats.Max, h.Formats.Min, h.Formats.Max)
	case h.Agreed || o.Agreed:
	case h.Lease != o.Lease || h.Lease != 0 && h.Tick != o.Tick:
		return fmt.Errorf("%w: it has a lease of %v and a tick of %v, this one %v and %v", ErrLease,
			o.Lease, o.Tick, h.Lease, h.Tick)
	}
	return nil
}

// verdictOf is the verdict that stands for a mismatch.
func verdictOf(err error) uint64 {
	for v := uint64(otherFormat); v <= otherRole; v++ {
		if errors.Is(err, verdicts[v]) {
			return v
		}
	}
	return taken
}

// greet says hello in a session that this side has dialled.
func (p *peer) greet() {
	if !p.greeting && p.sess != nil && !p.n.cfg.Silent {
		p.greeting = p.hail(p.greeted)
	}
}

// hail sends a Hello in the session that this side has dialled.
func (p *peer) hail(done erpc.Continuation) bool {
	n := p.n
	req, err := n.rpc.Alloc(helloSize)
	if err != nil {
		return false
	}
	h := n.hello()
	h.append(n.appendHeader(req.Data()[:0], n.announce(), p.id))
	_, err = n.rpc.EnqueueRequest(p.sess, erpc.Request{Type: TypeHello, Req: req,
		Timeout: 2 * n.rep.ElectionTimeout(), Done: done})
	if err != nil {
		req.Free()
		return false
	}
	n.moved = true
	return true
}

// greeted takes the answer: the other's Hello, or a refusal, or none of a program of format 0.
func (p *peer) greeted(c erpc.Completion) {
	c.Req.Free()
	p.greeting = false
	if c.Err != nil {
		if errors.Is(c.Err, erpc.ErrNoHandler) && c.Session == p.sess {
			p.met, p.announces = c.Session, false
			own := p.n.hello()
			_ = p.meet(&Hello{Tick: own.Tick, Lease: own.Lease, Role: RoleMember})
		}
		return
	}
	b := c.Resp.Data()
	if h, ok := parseHello(b); ok && binary.LittleEndian.Uint64(b[16:]) == p.id &&
		binary.LittleEndian.Uint64(b[8:]) == p.n.cfg.Cluster && p.n.admit(p.id, c.Session) == p {
		_, _, _ = p.n.check(c.Session, b) // the disk learns its log's identity
		p.met, p.announces, p.denial.err = c.Session, true, nil
		_ = p.meet(&h)
	}
	c.Resp.Free()
}

// meet notes what a peer says of itself, and says once if it does not go with this replica.
func (p *peer) meet(h *Hello) error {
	own := p.n.hello()
	err := own.suits(h)
	if said := p.other; err != nil && (said == nil || said.Error() != err.Error()) {
		p.n.cfg.Logger.Warn("a member does not go with this one", "replica", p.n.cfg.ID, "peer", p.id,
			"reason", err)
	}
	p.says, p.other = h, err
	return err
}

// onHello takes a Hello.
func (n *Node) onHello(req erpc.ReqHandle) {
	b, s := req.Data(), req.Session()
	h, ok := parseHello(b)
	if !ok {
		n.refuse(req, malformed)
		return
	}
	p, _, verdict := n.check(s, b)
	if p == nil {
		n.refuse(req, verdict)
		return
	}
	p.said, p.announces = s, true
	err := p.meet(&h)
	if verdict == taken || verdict == notYet {
		verdict = verdictOf(err)
	}
	own := n.hello()
	n.moved = true
	_ = req.RespondBytes(own.append(n.appendHeader(nil, verdict, p.id)))
}

// mute reports whether nothing is to be sent to a peer in a session: it would not count, or could
// not be read.
func (p *peer) mute(s *erpc.Session) bool {
	if p.met != s && (p.other != nil || p.n.needs() > 0) {
		p.greet() // again, if that was lost
		return true
	}
	return p.other != nil
}

// announce is the verdict that stands in requests.
func (n *Node) announce() uint64 {
	if n.cfg.Silent {
		return taken
	}
	return taken | saysHello
}

// heard says why a request of a peer does not count, going by its Hello.
func (n *Node) heard(p *peer, s *erpc.Session, announced bool) (verdict uint64) {
	switch {
	case n.cfg.Silent:
	case announced && p.said != s:
		return unsaid
	case announced && p.other != nil:
		return verdictOf(p.other)
	case !announced && n.needs() > 0:
		return otherFormat
	}
	return taken
}

// Companion is another member, as this one has heard of it.
type Companion struct {
	ID      uint64  `json:"id"`
	Met     bool    `json:"met"`  // it was spoken to; all else is known then
	Said    bool    `json:"said"` // it has said hello; else it is of format 0
	Formats Formats `json:"formats"`
	Tick    float64 `json:"tick_ms"`
	Lease   float64 `json:"lease_ms"`
	Err     string  `json:"error,omitempty"`  // why nothing of it counts
	Denial  string  `json:"denial,omitempty"` // why it takes nothing of this one
}

// goesOn reports whether a session is there still: what was said in one that has ended may hold no
// more, as after a restart.
func goesOn(s *erpc.Session) bool { return s != nil && s.Err() == nil }

// companions returns all other members.
func (n *Node) companions() (list []Companion) {
	for _, id := range n.rep.MemberIDs() {
		if id == n.cfg.ID {
			continue
		}
		c := Companion{ID: id}
		if p := n.peers[id]; p != nil && p.says != nil && (goesOn(p.met) || goesOn(p.said)) {
			if c.Met, c.Said = true, p.announces; c.Said {
				c.Formats = p.says.Formats
				c.Tick, c.Lease = p.says.Tick.Seconds()*1e3, p.says.Lease.Seconds()*1e3
			}
			if p.other != nil {
				c.Err = p.other.Error()
			}
		}
		if p := n.peers[id]; p != nil && p.denial.err != nil {
			c.Denial = p.denial.err.Error()
		}
		list = append(list, c)
	}
	return list
}
