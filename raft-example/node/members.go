package node

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"

	"github.com/userspace-rpc/erpc/erpc"
)

// MaxMembers bounds the members that an answer of TypeMembers may have.
const MaxMembers = 1024

// ErrMembers means that bytes are no list of members.
var ErrMembers = errors.New("node: malformed list of members")

// Members is the answer of TypeMembers: the members as of an index of the log. As bytes:
//
//	0 cluster u64 · 8 index u64 · 16 count u32 · 20 zero u32 · address size u8 · address ...
type Members struct {
	Cluster uint64
	Index   uint64
	Addrs   []string // by id
}

// Append appends the bytes of m.
func (m *Members) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, m.Cluster)
	b = binary.LittleEndian.AppendUint64(b, m.Index)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(m.Addrs)))
	for _, a := range m.Addrs {
		b = append(append(b, byte(len(a))), a...)
	}
	return b
}

// ParseMembers reads a list. The error is ErrMembers.
func ParseMembers(b []byte) (m Members, err error) {
	if len(b) < 24 {
		return m, ErrMembers
	}
	m.Cluster, m.Index = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	count := binary.LittleEndian.Uint64(b[16:])
	if b = b[24:]; count > MaxMembers || count > uint64(len(b)) {
		return m, ErrMembers
	}
	for range count {
		if len(b) == 0 || b[0] == 0 || len(b) < 1+int(b[0]) {
			return m, ErrMembers
		}
		m.Addrs = append(m.Addrs, string(b[1:1+int(b[0])]))
		b = b[1+int(b[0]):]
	}
	if len(b) != 0 {
		return m, ErrMembers
	}
	return m, nil
}

// onMembers tells a client the members.
func (n *Node) onMembers(req erpc.ReqHandle) {
	n.moved = true
	s := n.rep.Status()
	m := Members{Cluster: n.cfg.Cluster, Index: s.Applied}
	for _, id := range slices.Sorted(maps.Keys(s.Members)) {
		m.Addrs = append(m.Addrs, s.Members[id])
	}
	_ = req.RespondBytes(m.Append(nil))
}
