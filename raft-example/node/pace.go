package node

import (
	"slices"
	"sync"
	"time"
)

// probes is how often the disk is measured before a replica starts.
const probes = 3

// pace is how long the last writes to the disk took until they were durable. It is safe in
// any goroutine.
type pace struct {
	mu   sync.Mutex
	last [33]time.Duration
	n    int // writes so far
}

func (p *pace) add(d time.Duration) {
	p.mu.Lock()
	p.last[p.n%len(p.last)] = d
	p.n++
	p.mu.Unlock()
}

// typical is their median, 0 before the first.
func (p *pace) typical() time.Duration {
	p.mu.Lock()
	list := slices.Clone(p.last[:min(p.n, len(p.last))])
	p.mu.Unlock()
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)/2]
}

// warnEvery is how often a slow disk is worth a line of the log.
const warnEvery = time.Minute

// checkDisk compares the disk with the election timeout: a voter answers a candidate when its
// vote is durable, so that a slow disk makes elections long, and one slower than the timeout
// makes them fail.
func (n *Node) checkDisk() {
	now := n.cfg.Clock()
	if n.cfg.Disk == nil || now < n.nextCheck && n.nextCheck <= now.Add(warnEvery) {
		return
	}
	n.nextCheck = now.Add(n.cfg.ElectionTimeout())
	took, timeout := n.cfg.Disk.SyncTime(), n.cfg.ElectionTimeout()
	if took <= timeout/2 {
		return
	}
	n.nextCheck = now.Add(warnEvery)
	n.cfg.Logger.Warn("the disk is too slow for the election timeout: "+
		"use a longer tick on all replicas",
		"replica", n.cfg.ID, "sync", took, "election timeout", timeout, "tick", n.cfg.TickFor(took))
}
