//go:build amd64 || arm64

package sys

// StoreRelease stores v after all stores before it, as others see it. Unlike
// atomic.StoreUint64 it is no barrier against later loads: on amd64 that one waits until
// all stores before it are done, which is a cache miss for each line of a burst.
//
//go:noescape
func StoreRelease(p *uint64, v uint64)
