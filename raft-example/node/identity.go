package node

import (
	"fmt"
	"maps"
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
