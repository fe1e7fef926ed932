package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"

	"github.com/userspace-rpc/erpc/kit/leastheap"
)

// gcPercent is that of raft-bench put and raft-kv server, too. So is the least heap.
const gcPercent = 400

// leastHeapEnv tells the members the least heap in MiB.
const leastHeapEnv = "RAFTSTORE_LEAST_HEAP"

// heapFlag is the flag of the least heap.
func heapFlag(set *flag.FlagSet) *int {
	return set.Int("gc-heap", leastheap.Default,
		"heap in `MiB` before it is collected at all, of all processes and all systems")
}

// keepHeap begins with a least heap, of the processes that are started later, too.
func keepHeap(mib int) (stop func(), err error) {
	if mib < 0 {
		return nil, fmt.Errorf("-gc-heap %d: must not be negative", mib)
	}
	if err := os.Setenv(leastHeapEnv, strconv.Itoa(mib)); err != nil {
		return nil, err
	}
	return leastheap.Keep(uint64(mib)<<20, gcPercent), nil
}

// keepMembersHeap begins with the least heap that the process is told, none if it is told nothing.
func keepMembersHeap() (stop func()) {
	mib, _ := strconv.ParseUint(os.Getenv(leastHeapEnv), 10, 32) // 0 if it is no number
	return leastheap.Keep(mib<<20, gcPercent)
}
