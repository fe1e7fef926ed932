package node

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/wal"
)

// ErrUpgrade means that a member may not know the version that is asked for.
var ErrUpgrade = errors.New("node: the cluster's version stays what it is until all members run " +
	"and know the next one")

// needs is the format that a member must know: of older ones there is more in the log already.
func (n *Node) needs() uint32 { return max(n.cfg.Formats.Min, uint32(n.rep.Format())) }

// follow holds those that were met before to the format that the log needs now, and to a tick and a
// lease only as long as the log says none. It is called before anything is sent, so that no program
// gets what it does not know.
func (n *Node) follow() {
	f, agreed := n.rep.Format(), n.rep.Timing().Agreed
	if f == n.wants && agreed == n.agreed {
		return
	}
	n.wants, n.agreed = f, agreed
	for _, id := range slices.Sorted(maps.Keys(n.peers)) {
		p := n.peers[id]
		if p.says != nil && p.meet(p.says) == nil {
			continue
		}
		for _, req := range p.open {
			n.refuse(req, otherFormat)
		}
		p.buf, p.open, p.old = p.buf[:0], p.open[:0], 0
	}
}

// upgrade raises the cluster's version to one, 0 for the newest that this program knows, unless a
// member does not know it. One upgrade is under way at a time.
func (n *Node) upgrade(req erpc.ReqHandle, to uint8) {
	if to == 0 {
		to = uint8(min(n.cfg.Formats.Max, kv.Format))
	}
	switch {
	case n.polling:
		n.answer(req, &kv.Answer{Status: kv.Busy})
	case !n.rep.Leads() || to <= n.rep.Store().Version():
		n.raise(req, to, nil)
	default:
		n.polling = true
		n.poll(uint32(to), func(err error) {
			n.polling = false
			n.raise(req, to, err)
		})
	}
}

// raise proposes a version, unless err says why not.
func (n *Node) raise(req erpc.ReqHandle, to uint8, err error) {
	tag := n.waiting.put(req, 0)
	if err == nil {
		err = n.rep.Raise(to, tag)
	}
	n.asked(tag, err)
}

// poll asks all other members for their Hello, also those without a vote, and then says which of
// them does not know a format, or does not answer.
func (n *Node) poll(format uint32, then func(error)) {
	var first error
	left := 1
	one := func(err error) {
		if first == nil {
			first = err
		}
		if left--; left == 0 {
			then(first)
		}
	}
	for _, id := range n.rep.MemberIDs() {
		if id == n.cfg.ID {
			continue
		}
		p := n.peer(id)
		silent := fmt.Errorf("%w: replica %d does not answer", ErrUpgrade, id)
		left++
		if p.session() == nil || !p.hail(func(c erpc.Completion) {
			failed := c.Err != nil && !errors.Is(c.Err, erpc.ErrNoHandler)
			s := c.Session
			p.greeted(c)
			switch {
			case failed || p.met != s:
				one(silent)
			case !p.announces:
				one(fmt.Errorf("%w: replica %d runs a program of format 0", ErrUpgrade, id))
			case p.says.Formats.Max < format:
				one(fmt.Errorf("%w: replica %d knows formats up to %d", ErrUpgrade, id,
					p.says.Formats.Max))
			default:
				one(nil)
			}
		}) {
			one(silent)
		}
	}
	one(nil)
}

// What is on the disk has a number for the format of its entries.
var _ [kv.Format]struct{} = [wal.Format]struct{}{}
