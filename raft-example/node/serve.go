package node

import (
	"encoding/json"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/replica"
)

// onKV handles a client's command. The request's bytes become the log entry.
func (n *Node) onKV(req erpc.ReqHandle) {
	n.requests++
	c, err := kv.ParseCommand(req.Data())
	if err != nil {
		a := kv.Fail(err)
		n.answer(req, &a)
		return
	}
	if c.Cluster != n.cfg.Cluster {
		n.answer(req, &kv.Answer{Status: kv.WrongCluster})
		return
	}
	if c.Op == kv.Clock || c.Op == kv.Raise || c.Op == kv.Timing || // the leader's own
		c.Op == kv.Close && n.rep.Leads() && n.rep.Store().Version() < 1 {
		n.answer(req, &kv.Answer{Status: kv.Malformed})
		return
	}
	var began monotime.Time
	if n.measured {
		began = n.cfg.Clock()
	}
	tag := n.waiting.put(req, began)
	var a kv.Answer
	var ok bool
	if c.Op == kv.Get {
		a, ok = n.rep.Read(c.Key, c.Anywhere, tag)
	} else {
		n.charge(StepPropose, 1)
		a, ok = n.rep.Propose(req.Data(), tag)
		n.rep.Expect(c.Key)
	}
	if !ok {
		n.waiting.take(tag)
		n.answer(req, &a)
		return
	}
	n.work()
}

func (n *Node) onEcho(req erpc.ReqHandle) {
	n.moved = true
	_ = req.RespondBytes(req.Data()) // the client gets its error
}

func (n *Node) onStatus(req erpc.ReqHandle) {
	n.moved = true
	s := n.rep.Status()
	s.Removed = n.admin.removed
	if n.Err() != nil {
		s.Err = n.Err().Error()
	}
	var took, p99 time.Duration
	if n.cfg.Disk != nil {
		took, p99 = n.cfg.Disk.SyncTime(), n.cfg.Disk.SyncP99()
	}
	b, err := json.Marshal(struct {
		Cluster uint64 `json:"cluster"`
		replica.Status
		SyncTime float64     `json:"sync_ms,omitempty"`
		SyncP99  float64     `json:"sync_p99_ms,omitempty"`
		Writing  float64     `json:"writing_ms,omitempty"` // how long the write under way has taken
		Trust    string      `json:"trust"`
		Admins   string      `json:"admins"`
		Formats  Formats     `json:"formats"` // that it knows
		Peers    []Companion `json:"peers"`
	}{n.cfg.Cluster, s, ms(took), ms(p99), ms(n.rep.WriteFor()), n.Trust(), n.Admins(),
		n.cfg.Formats, n.companions()})
	if err != nil {
		_ = req.RespondError(err)
		return
	}
	_ = req.RespondBytes(b)
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }
