package replica

import (
	"maps"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Coming returns the addresses that members get by changes in the log which are not applied, and
// the index of the last of these. They may be committed, and whoever tells that may be one of those
// that come: the last one of before may have failed.
func (r *Replica) Coming() (addrs []string, index uint64) {
	first := max(r.applied, r.log.base) + 1
	if r.change.seen < first {
		return nil, 0
	}
	for _, e := range r.log.entries[min(first-r.log.base-1, uint64(len(r.log.entries))):] {
		if list := addressesOf(e); len(list) > 0 {
			addrs, index = append(addrs, list...), e.GetIndex()
		}
	}
	return addrs, index
}

// addressesOf returns the addresses that an entry gives members. One that is malformed has none:
// the replica ends when it is applied.
func addressesOf(e *pb.Entry) []string {
	switch e.GetType() {
	case pb.EntryConfChange:
		cc := &pb.ConfChange{}
		if err := proto.Unmarshal(e.Data, cc); err == nil && len(cc.Context) > 0 {
			return []string{string(cc.Context)}
		}
	case pb.EntryConfChangeV2:
		cc := &pb.ConfChangeV2{}
		if err := proto.Unmarshal(e.Data, cc); err == nil {
			members, _, _ := parseMembers(cc.Context)
			return slices.Sorted(maps.Values(members))
		}
	}
	return nil
}
