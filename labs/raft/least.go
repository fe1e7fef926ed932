package main

import (
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/node"
)

// leastMember is the least program with the messages of the store and nothing else: no Raft, no
// state, no log. The first member sends the bytes of all requests of a pass to both others, in one
// message each, and answers the clients with the first answer. It does so for GETs too, as reads
// without a lease ask a quorum. So its rates bound those of a store on this network.
type leastMember struct {
	nexus *erpc.Nexus
	rpc   *erpc.Rpc
	ended chan error
	over  atomic.Bool

	peers  []*erpc.Session
	open   []erpc.ReqHandle // requests of this pass
	bodies []byte           // their bytes
	moved  bool             // packets may have been left to send
}

// leastBatch has the requests that wait for the first answer of two.
type leastBatch struct {
	m    *leastMember
	open []erpc.ReqHandle
}

var (
	leastOK   = (&kv.Answer{Status: kv.OK}).Append(nil)
	leastOpen = (&kv.Answer{Status: kv.OK, Number: 1}).Append(nil)
	leastGot  []byte // the answer to a GET
)

func init() {
	a := kv.Answer{Status: kv.OK, Found: true}
	a.Value, _ = kv.MakeValue(zeros[:])
	leastGot = a.Append(nil)
}

func newLeast() (member, error) {
	m := &leastMember{}
	var err error
	m.nexus, m.rpc, err = listen(func(x *erpc.Nexus) error {
		return errors.Join(x.Register(node.TypeKV, erpc.Dispatch, m.onKV),
			x.Register(node.TypeRaft, erpc.Dispatch, m.onPeer))
	})
	return m, err
}

func (m *leastMember) addr() string { return m.rpc.LocalAddr().String() }

func (m *leastMember) start(_ context.Context, st *start) error {
	if st.ID == 1 {
		for _, id := range []uint64{2, 3} {
			s, err := m.rpc.CreateSession(st.Members[id])
			if err != nil {
				return err
			}
			m.peers = append(m.peers, s)
		}
	}
	m.ended = make(chan error, 1)
	go func() {
		m.ended <- m.rpc.Run(func() bool {
			m.pass()
			if m.moved {
				m.rpc.Wake()
			}
			m.moved = false
			return m.over.Load()
		})
	}()
	return nil
}

// onKV takes a client's request; that of a session is answered at once.
func (m *leastMember) onKV(req erpc.ReqHandle) {
	c, err := kv.ParseCommand(req.Data())
	switch {
	case err != nil:
		_ = req.RespondError(err)
	case len(m.peers) == 0:
		_ = req.RespondBytes((&kv.Answer{Status: kv.NotLeader, Number: 1}).Append(nil))
	case c.Op == kv.Open:
		_ = req.RespondBytes(leastOpen)
	default:
		m.open = append(m.open, req)
		if c.Op == kv.Put {
			m.bodies = binary.LittleEndian.AppendUint32(m.bodies, uint32(len(req.Data())))
			m.bodies = append(m.bodies, req.Data()...)
		}
		return
	}
	m.moved = true
}

// onPeer answers the first member, as a follower does.
func (m *leastMember) onPeer(req erpc.ReqHandle) {
	m.moved = true
	_ = req.RespondBytes(leastOK)
}

// pass sends what the requests of a pass of the loop have in them.
func (m *leastMember) pass() {
	if len(m.open) == 0 {
		return
	}
	b := &leastBatch{m, m.open}
	m.open = nil
	for _, s := range m.peers {
		buf, err := m.rpc.Alloc(8 + len(m.bodies))
		if err != nil {
			continue // the other one answers, or the client gives up
		}
		copy(buf.Data()[8:], m.bodies)
		if _, err := m.rpc.EnqueueRequest(s, erpc.Request{Type: node.TypeRaft, Req: buf,
			Done: b.done}); err != nil {
			buf.Free()
		}
	}
	m.bodies, m.moved = m.bodies[:0], true
}

// done takes the answer of one of the others.
func (b *leastBatch) done(d erpc.Completion) {
	d.Req.Free()
	if d.Err != nil {
		return
	}
	d.Resp.Free()
	for _, req := range b.open {
		answer := leastOK
		if c, _ := kv.ParseCommand(req.Data()); c.Op == kv.Get {
			answer = leastGot
		}
		_ = req.RespondBytes(answer)
	}
	b.m.moved, b.open = true, nil
}

func (m *leastMember) figures() used { return used{} }

func (m *leastMember) close() (err error) {
	if m.ended != nil {
		m.over.Store(true)
		m.rpc.Wake()
		err = <-m.ended
	}
	return errors.Join(err, m.rpc.Close(), m.nexus.Close())
}
