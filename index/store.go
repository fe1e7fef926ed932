//go:build !race

package index

import "github.com/userspace-rpc/erpc/internal/sys"

func store(p *uint64, v uint64) { sys.StoreRelease(p, v) }
