package node

import (
	"fmt"
	"maps"

	"github.com/userspace-rpc/erpc/kit/monotime"
)

// identities are those of other replicas' logs.
type identities struct {
	durable map[uint64]uint64 // by replica
	saving  map[uint64]uint64 // that is being written; nil if nothing is
}

// learn notes the identity of a replica's log for good, before anything that it sends counts.
// Otherwise a replica whose disk was wiped would not be recognised when all start again, and
// could vote twice. The sender repeats what is lost meanwhile.
func (n *Node) learn(from, log uint64) (verdict uint64) {
	k := &n.known
	if k.saving != nil {
		return notYet
	}
	k.saving = maps.Clone(k.durable)
	if k.saving == nil {
		k.saving = map[uint64]uint64{}
	}
	k.saving[from] = log
	n.cfg.Disk.SavePeers(k.saving, func(err error) {
		if err != nil {
			n.fail(fmt.Errorf("node: the identities of the peers could not be written: %w", err))
			return
		}
		k.durable, k.saving = k.saving, nil
	})
	return notYet
}

// acquaint says hello, once in an election timeout, to the members whose logs the disk does not
// know yet. Else the first message of one would be lost, and that may be the vote that a leader
// needs.
func (n *Node) acquaint(now monotime.Time) {
	if timeout := n.rep.ElectionTimeout(); n.cfg.Disk == nil ||
		now < n.nextHello && n.nextHello <= now.Add(timeout) {
		return
	} else {
		n.nextHello = now.Add(timeout)
	}
	for _, id := range n.rep.MemberIDs() {
		if p := n.peer(id); id != n.cfg.ID && n.known.durable[id] == 0 && p.session() != nil {
			p.greet()
		}
	}
}
