package node

import (
	"slices"
	"sync"
	"time"

	"github.com/userspace-rpc/erpc/kit/monotime"
)

// probes is how often the disk is measured before a replica starts.
const probes = 3

// pace is how long the last writes to the disk took until they were durable. It is safe in
// any goroutine.
type pace struct {
	mu   sync.Mutex
	last [1000]time.Duration
	n    int // writes so far
}

// recent is of how many writes typical is the median.
const recent = 33

func (p *pace) add(d time.Duration) {
	p.mu.Lock()
	p.last[p.n%len(p.last)] = d
	p.n++
	p.mu.Unlock()
}

// typical is the median of the recent ones, 0 before the first.
func (p *pace) typical() time.Duration { return p.quantile(recent, 1, 2) }

// p99 is what one in a hundred takes longer than, 0 before the first.
func (p *pace) p99() time.Duration { return p.quantile(len(p.last), 99, 100) }

// quantile returns the part num/den of the last n writes.
func (p *pace) quantile(n, num, den int) time.Duration {
	p.mu.Lock()
	n = min(n, p.n)
	list := make([]time.Duration, n)
	for i := range list {
		list[i] = p.last[(p.n-1-i)%len(p.last)]
	}
	p.mu.Unlock()
	if n == 0 {
		return 0
	}
	slices.Sort(list)
	return list[n*num/den]
}

// warnEvery is how often a slow disk is worth a line of the log.
const warnEvery = time.Minute

// checkDisk compares the disk with the election timeout: a voter answers a candidate when its
// vote is durable, so that a slow disk makes elections long, and one slower than the timeout
// makes them fail.
func (n *Node) checkDisk() {
	now := n.cfg.Clock()
	if n.cfg.Disk != nil {
		n.checkHang(now)
	}
	if n.cfg.Disk == nil || now < n.nextCheck && n.nextCheck <= now.Add(warnEvery) {
		return
	}
	n.nextCheck = now.Add(n.rep.ElectionTimeout())
	took, timeout := n.cfg.Disk.SyncTime(), n.rep.ElectionTimeout()
	if took <= timeout/2 {
		return
	}
	n.nextCheck = now.Add(warnEvery)
	n.cfg.Logger.Warn("the disk is too slow for the election timeout: "+
		"make it longer for all replicas, raft-kv tick",
		"replica", n.cfg.ID, "sync", took, "election timeout", timeout, "tick", n.rep.TickFor(took))
}

// checkStall logs each pause of the loop that was longer than an election timeout. A replica sleeps
// for less, so the process was stopped, or had no processor. The others may have elected a leader
// meanwhile. It is no fault of the disk: see replica.WriteFor.
func (n *Node) checkStall(now monotime.Time) {
	past := now.Sub(n.polled)
	if n.polled != 0 && past > n.rep.ElectionTimeout() {
		n.cfg.Logger.Warn("the process stood still: it was stopped, or had no processor", "replica",
			n.cfg.ID, "led", n.rep.Leads(), "for", past)
	}
	n.polled = now
}

// hang is the state of checkHang.
type hang struct {
	on      bool          // one does, and that was told
	longest time.Duration // what the write had taken at the last check
	told    monotime.Time
}

// checkHang logs a write that takes longer than an election timeout, and its end. The replica leads
// no longer then, if the others' disks are faster. It logs one in warnEvery: with a short tick many
// writes may take so long.
func (n *Node) checkHang(now monotime.Time) {
	h, took := &n.hang, n.rep.WriteFor()
	over := took <= n.rep.ElectionTimeout()
	switch {
	case h.on && over:
		h.on = false
		n.cfg.Logger.Warn("the disk goes on", "replica", n.cfg.ID, "write", h.longest)
	case !h.on && !over && (h.told == 0 || now >= h.told.Add(warnEvery) || now < h.told):
		h.on, h.told = true, now
		n.cfg.Logger.Warn("the disk hangs: a write is not durable after an election timeout",
			"replica", n.cfg.ID, "leads", n.rep.Leads(), "write", took)
	}
	h.longest = took
}
