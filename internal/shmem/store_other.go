//go:build !amd64 && !arm64

package shmem

import "sync/atomic"

// storeRelease stores v after all stores before it, as others see it.
func storeRelease(p *uint64, v uint64) { atomic.StoreUint64(p, v) }
