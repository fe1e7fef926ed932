package node

import (
	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/monotime"
)

// waits is a request that waits for its answer.
type waits struct {
	req   erpc.ReqHandle
	began monotime.Time // 0: not measured
	first bool          // of two steps: when it is done the second may be asked for
	save  bool          // answered by Node.saving
	used  bool
	gen   uint32
}

// slots holds requests under tags that are never used twice.
type slots struct {
	list []waits
	free []uint32
}

func (s *slots) put(req erpc.ReqHandle, began monotime.Time) (tag uint64) {
	if len(s.free) == 0 {
		s.free = append(s.free, uint32(len(s.list)))
		s.list = append(s.list, waits{})
	}
	i := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	w := &s.list[i]
	w.req, w.began, w.used = req, began, true
	w.gen++
	return uint64(w.gen)<<32 | uint64(i)
}

func (s *slots) take(tag uint64) (waits, bool) {
	i := uint32(tag)
	if int(i) >= len(s.list) || !s.list[i].used || s.list[i].gen != uint32(tag>>32) {
		return waits{}, false
	}
	w := s.list[i]
	s.list[i] = waits{gen: w.gen}
	s.free = append(s.free, i)
	return w, true
}
