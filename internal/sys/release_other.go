//go:build !amd64 && !arm64

package sys

import "sync/atomic"

// StoreRelease stores v after all stores before it, as others see it.
func StoreRelease(p *uint64, v uint64) { atomic.StoreUint64(p, v) }
