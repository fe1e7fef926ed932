package node

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/wal"
)

// ErrUpgrade means that a member may not know the version that is asked for.
var ErrUpgrade = errors.New("node: the cluster's version stays what it is until all members run " +
	"and know the next one")

// needs is the format that a member must know: of older ones there is more in the log already.
func (n *Node) needs() uint32 { return max(n.cfg.Formats.Min, uint32(n.rep.Format())) }

// follow holds those that were met before to the format that the log needs now. It is called before
// anything is sent, so that no program gets what it does not know.
func (n *Node) follow() {
	f := n.rep.Format()
	if f == n.wants {
		return
	}
	n.wants = f
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

// raise proposes a version, 0 for the newest that this program knows. Errors: ErrUpgrade, those of
// replica.Replica.Raise.
func (n *Node) raise(to uint8, tag uint64) error {
	if to == 0 {
		to = uint8(min(n.cfg.Formats.Max, kv.Format))
	}
	if n.rep.Leads() && to > n.rep.Store().Version() {
		if err := n.all(uint32(to)); err != nil {
			return err
		}
	}
	return n.rep.Raise(to, tag)
}

// all says which member may not know a format. Those without a vote count, too.
func (n *Node) all(format uint32) error {
	for _, id := range n.rep.MemberIDs() {
		if id == n.cfg.ID {
			continue
		}
		p := n.peer(id)
		switch s := p.session(); {
		case s == nil || p.met != s:
			return fmt.Errorf("%w: replica %d does not answer", ErrUpgrade, id)
		case !p.announces:
			return fmt.Errorf("%w: replica %d runs a program of format 0", ErrUpgrade, id)
		case p.says.Formats.Max < format:
			return fmt.Errorf("%w: replica %d knows formats up to %d", ErrUpgrade, id, p.says.Formats.Max)
		}
	}
	return nil
}

// What is on the disk has a number for the format of its entries.
var _ [kv.Format]struct{} = [wal.Format]struct{}{}
