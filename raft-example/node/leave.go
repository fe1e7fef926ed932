package node

import (
	"time"

	"github.com/userspace-rpc/erpc/kit/monotime"
)

// leaving is how far a node has come that is to end.
type leaving struct {
	began   monotime.Time // 0: it is not
	seen    int           // requests of clients when they were last looked at
	quiet   monotime.Time // since when none has come
	refuses monotime.Time // since when it takes nothing more; 0: it does
}

// Leave prepares the end of the process, after each pass of the loop: call it as the end of Run's
// stop. A leader answers what it has, and hands over. Then clients hear who leads, until they have
// gone there, and then everything is refused. It reports whether the loop may end: at the latest
// after six election timeouts.
func (n *Node) Leave() (done bool) {
	l, now, timeout := &n.leaving, n.cfg.Clock(), n.rep.ElectionTimeout()
	if l.began == 0 {
		l.began, l.quiet = now, now
	}
	past := func(since monotime.Time, d time.Duration) bool { return now >= since.Add(d) }
	if l.refuses == 0 {
		hurry := past(l.began, timeout)
		if wait := n.rep.Retire(hurry); wait && !past(l.began, 3*timeout) {
			n.work()
			if n.moved || n.busy {
				n.rpc.Wake()
			}
			l.quiet = now
			return false
		}
		if l.seen != n.requests {
			l.seen, l.quiet = n.requests, now
		}
		if !past(l.quiet, timeout/4) && !past(l.began, 5*timeout) {
			return false
		}
		l.refuses = now
		_ = n.rpc.Refuse() // an Rpc that is closed takes nothing
	}
	return past(l.refuses, timeout) || past(l.refuses, timeout/10) && n.rpc.Running() == 0
}
