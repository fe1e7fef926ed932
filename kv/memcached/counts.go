package memcached

import (
	"sync/atomic"

	"github.com/userspace-rpc/erpc/kv/mica"
)

// counter is one of what clients did, as memcached's stats have them.
type counter uint8

const (
	cmdGet counter = iota
	cmdSet
	cmdFlush
	cmdTouch
	cmdMeta
	getHits
	getMisses
	deleteHits
	deleteMisses
	increaseHits
	increaseMisses
	decreaseHits
	decreaseMisses
	swapHits
	swapMisses
	swapOthers // the item had changed
	touchHits
	touchMisses
	authDone
	authFailed
	storeTooLarge
	idleKicks
	counters
)

// counterNames are those of stats.
var counterNames = [counters]string{"cmd_get", "cmd_set", "cmd_flush", "cmd_touch", "cmd_meta",
	"get_hits", "get_misses", "delete_hits", "delete_misses", "incr_hits", "incr_misses",
	"decr_hits", "decr_misses", "cas_hits", "cas_misses", "cas_badval", "touch_hits",
	"touch_misses", "auth_cmds", "auth_errors", "store_too_large", "idle_kicks"}

// counts are those of a batch.
type counts [counters]uint32

func (n *counts) add(c counter, by uint32) { n[c] += by }

func (n *counts) hit(hits, misses counter, hit bool) {
	if hit {
		n[hits]++
	} else {
		n[misses]++
	}
}

// swap counts a compare-and-swap.
func (n *counts) swap(err error) {
	switch err {
	case nil:
		n[swapHits]++
	case mica.ErrNotFound:
		n[swapMisses]++
	case mica.ErrVersion:
		n[swapOthers]++
	}
}

// arithmetic counts an increment or decrement.
func (n *counts) arithmetic(down bool, err error) {
	if err != nil && err != mica.ErrNotFound {
		return
	}
	if down {
		n.hit(decreaseHits, decreaseMisses, err == nil)
	} else {
		n.hit(increaseHits, increaseMisses, err == nil)
	}
}

// count adds the counters of a batch to the server's.
func (s *Server) count(n *counts) {
	for i := range n {
		if n[i] > 0 {
			s.totals[i].Add(uint64(n[i]))
			n[i] = 0
		}
	}
}

// totals are the counters of a server.
type totals [counters]atomic.Uint64
