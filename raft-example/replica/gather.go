package replica

import (
	"time"

	"github.com/userspace-rpc/erpc/kit/monotime"
)

// gather lets requests wait for others, so that they share a round: each round costs as much,
// whatever is in it. Clients that were answered come again soon. So after a round of more than few
// requests the next one waits until as many have come, up to gatherUp, or for a while at most.
// Fewer clients, or clients that do not come again, make smaller rounds, and those wait for fewer.
type gather struct {
	most    time.Duration // how long they wait
	last    int           // requests in the last round
	waiting bool
	from    monotime.Time // when they began to wait
}

// gatherUp bounds the requests that a round waits for. If a round held the requests of all clients,
// clients and replicas would only work in turns.
const gatherUp = 32

// wait reports whether n requests are to wait. Their time begins when it is first asked.
func (g *gather) wait(n int, now monotime.Time) bool {
	if n == 0 || g.last <= few || n >= min(g.last, gatherUp) {
		g.waiting = false
		return false
	}
	return g.hold(now)
}

// hold has requests wait whatever their number, and reports whether they do.
func (g *gather) hold(now monotime.Time) bool {
	if !g.waiting {
		g.waiting, g.from = true, now
	}
	return now >= g.from && now < g.from.Add(g.most)
}

// left notes that n requests have left.
func (g *gather) left(n int) { g.last, g.waiting = n, false }

// due reports whether requests have waited for long enough.
func (g *gather) due(now monotime.Time) bool {
	return g.waiting && (now >= g.end() || now < g.from)
}

// end is when they have, monotime.Never if none wait.
func (g *gather) end() monotime.Time {
	if !g.waiting {
		return monotime.Never
	}
	return g.from.Add(g.most)
}
