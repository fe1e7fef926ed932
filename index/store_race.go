//go:build race

package index

import "sync/atomic"

// store is an instruction that the race detector knows.
func store(p *uint64, v uint64) { atomic.StoreUint64(p, v) }
