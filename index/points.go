package index

import (
	"sync/atomic"

	"github.com/userspace-rpc/erpc/internal/invariants"
)

// Points at which tests may let others run.
const (
	pointPublish = iota // before a state, an order or a value is stored
	pointDie            // before a node gets heirs
	pointDead           // after it, before its parent knows
	pointRoot           // before the root is stored
	pointWait           // a lock is taken, or a node not yet linked
	pointRead           // a reader, between two loads
)

// scheduler is called at these points, in builds that check invariants; tests set it.
var scheduler atomic.Pointer[func(point int)]

// scheduled reports whether a test schedules writers.
func scheduled() bool { return invariants.Enabled && scheduler.Load() != nil }

// point lets a test's scheduler decide who runs next. It reports whether there is one.
func point(at int) bool {
	if !invariants.Enabled {
		return false
	}
	f := scheduler.Load()
	if f != nil {
		(*f)(at)
	}
	return f != nil
}
