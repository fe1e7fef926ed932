package node

import (
	"encoding/json"
	"errors"
	"strings"
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
	if c.Op == kv.Clock || c.Op == kv.Raise || // the leader's own
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
		Formats  Formats     `json:"formats"` // that it knows
		Peers    []Companion `json:"peers"`
	}{n.cfg.Cluster, s, ms(took), ms(p99), ms(n.rep.WriteFor()), n.Trust(), n.cfg.Formats,
		n.companions()})
	if err != nil {
		_ = req.RespondError(err)
		return
	}
	_ = req.RespondBytes(b)
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }

// Admin is a request of TypeAdmin, as JSON. Its answer is one of package kv: with Found if all of
// it was so already; of a bad change, Malformed, the value is the reason.
type Admin struct {
	Cluster  uint64         `json:"cluster"`
	Change   replica.Change `json:"change,omitempty"`
	ID       uint64         `json:"id"`
	Addr     string         `json:"addr,omitempty"`
	Transfer bool           `json:"transfer,omitempty"` // make ID the leader
	// Members are changed at once, by joint consensus, instead of Change, ID and Addr.
	Members []replica.Member `json:"members,omitempty"`
	// Upgrade makes Version the cluster's instead, 0 for the newest that the leader's program knows.
	Upgrade bool  `json:"upgrade,omitempty"`
	Version uint8 `json:"version,omitempty"`
}

func (n *Node) onAdmin(req erpc.ReqHandle) {
	var a Admin
	switch err := json.Unmarshal(req.Data(), &a); {
	case err != nil:
		n.answer(req, &kv.Answer{Status: kv.Malformed})
		return
	case a.Cluster != n.cfg.Cluster:
		n.answer(req, &kv.Answer{Status: kv.WrongCluster})
		return
	case a.Transfer && n.rep.Leads():
		n.rep.Transfer(a.ID)
		n.answer(req, &kv.Answer{Status: kv.OK})
		n.work()
		return
	case a.Upgrade:
		n.upgrade(req, a.Version)
		return
	}
	tag := n.waiting.put(req, 0)
	if len(a.Members) > 0 {
		n.proposed(tag, n.rep.Reconfigure(a.Members, tag))
	} else {
		n.proposed(tag, n.rep.Change(a.Change, a.ID, a.Addr, tag))
	}
}

// proposed answers the request of a change that was not taken.
func (n *Node) proposed(tag uint64, err error) {
	if err == nil {
		n.work()
		return
	}
	q, _ := n.waiting.take(tag)
	answer := n.rep.Elsewhere()
	if !errors.Is(err, replica.ErrLeader) {
		answer = kv.Answer{Status: kv.Malformed, Value: reason(err)}
	}
	n.answer(q.req, &answer)
}

// reason is the reason why a bad change is refused, cut to the room that an answer has.
func reason(err error) kv.Value {
	text := strings.TrimPrefix(err.Error(), replica.ErrMember.Error()+": ")
	text = strings.TrimPrefix(text, ErrUpgrade.Error()+": ")
	v, _ := kv.MakeValue(text[:min(len(text), kv.MaxValue)])
	return v
}
