package node

import (
	"errors"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/monotime"
)

// denial is why another member takes nothing of this replica: that one refuses its keys, or says
// that it has not the role of members. It is an operator's mistake on either side, and does not
// mean that this replica is no member.
type denial struct {
	err  error         // nil: there is none
	told monotime.Time // until when it is not told again
}

// denied notes such a reason, and tells it now and then.
func (p *peer) denied(err error) {
	n, now := p.n, p.n.cfg.Clock()
	if d := &p.denial; d.err == nil || d.err.Error() != err.Error() || now >= d.told {
		d.told = now.Add(refusalsEvery)
		n.cfg.Logger.Warn("a member takes nothing of this replica", "replica", n.cfg.ID, "peer", p.id,
			"addr", p.addr, "reason", err)
	}
	p.denial.err = err
}

// ended looks at why the session that this side has dialled has ended.
func (p *peer) ended(err error) {
	if errors.Is(err, erpc.ErrDenied) || errors.Is(err, erpc.ErrInsecure) {
		p.denied(err)
	}
}
