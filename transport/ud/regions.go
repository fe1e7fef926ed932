package ud

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/userspace-rpc/erpc/internal/verbs"
)

// region is memory of the application that the adapter may read.
type region struct {
	base, end uint64
	lkey      uint32
	mr        *verbs.MR
}

// regions are the registered pieces of the application's memory. find is for the using
// goroutine, the others may be called from any.
type regions struct {
	pd   *verbs.PD
	mu   sync.Mutex
	shut bool
	list atomic.Pointer[[]region] // sorted; never changed, only replaced
	last region                   // that find found last; of the using goroutine
	seen *[]region                // the list it is of
}

// find returns the key of the region that holds n bytes from addr on.
func (r *regions) find(addr uint64, n int) (lkey uint32, ok bool) {
	list := r.list.Load()
	if list == nil {
		return 0, false
	}
	if list == r.seen && addr >= r.last.base && addr+uint64(n) <= r.last.end {
		return r.last.lkey, true
	}
	lo, hi := 0, len(*list)
	for lo < hi {
		if mid := (lo + hi) / 2; (*list)[mid].base <= addr {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return 0, false
	}
	x := &(*list)[lo-1]
	if addr+uint64(n) > x.end {
		return 0, false
	}
	r.last, r.seen = *x, list
	return x.lkey, true
}

// add registers mem. It returns 0 if that is not possible, for lack of lockable memory
// mostly; packets in it are copied then.
func (r *regions) add(mem []byte) (lkey uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shut {
		return 0
	}
	mr, err := r.pd.Register(mem, verbs.LocalWrite)
	if err != nil {
		return 0
	}
	x := region{mr.Base(), mr.Base() + uint64(len(mem)), mr.LKey(), mr}
	list := append(slices.Clone(r.all()), x)
	slices.SortFunc(list, func(a, b region) int { return cmp.Compare(a.base, b.base) })
	r.list.Store(&list)
	return x.lkey
}

// remove takes the region that begins where mem begins out, and returns it.
func (r *regions) remove(mem []byte) *verbs.MR {
	r.mu.Lock()
	defer r.mu.Unlock()
	base := verbs.Address(mem)
	list := slices.Clone(r.all())
	i := slices.IndexFunc(list, func(x region) bool { return x.base == base })
	if i < 0 {
		return nil
	}
	mr := list[i].mr
	list = slices.Delete(list, i, i+1)
	r.list.Store(&list)
	return mr
}

func (r *regions) all() []region {
	if p := r.list.Load(); p != nil {
		return *p
	}
	return nil
}

// close frees all regions.
func (r *regions) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.all() {
		x.mr.Close()
	}
	r.list.Store(nil)
	r.shut = true
}
