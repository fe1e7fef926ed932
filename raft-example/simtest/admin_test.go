package simtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/node"
	"github.com/userspace-rpc/erpc/raft-example/replica"
	"github.com/userspace-rpc/erpc/transport/sim"
)

// operator asks for changes at random, many of them mistakes, while machines die for good.
type operator struct {
	*cluster
	u    *user
	said map[string]int // how requests ended
}

// pick returns a server that was ever started, dead ones among them.
func (o *operator) pick() *server { return o.servers[o.r.IntN(len(o.servers))] }

// request makes one up.
func (o *operator) request() (a node.Admin) {
	addr := func(s *server) string {
		switch o.r.IntN(4) {
		case 0:
			return o.pick().addr
		case 1:
			return fmt.Sprintf("[fd00::%x]:%d", 200+o.r.IntN(9), sim.FirstPort) // nobody's
		}
		return s.addr
	}
	a.Cluster = testCluster
	s := o.pick()
	a.ID = s.id
	switch o.r.IntN(9) {
	case 0:
		a.Transfer = true
	case 1, 2:
		a.Change = replica.Remove
	case 3, 4:
		a.Change, a.Addr = replica.Learner, addr(s)
	case 5: // several at once
		for i := range 1 + o.r.IntN(3) {
			s := o.servers[(int(a.ID)+i)%len(o.servers)]
			m := replica.Member{Change: replica.Add, ID: s.id, Addr: addr(s)}
			if o.r.IntN(2) == 0 {
				m = replica.Member{Change: replica.Remove, ID: s.id}
			}
			a.Members = append(a.Members, m)
		}
	default:
		a.Change, a.Addr = replica.Add, addr(s)
	}
	return a
}

// ask asks the leader, as the command does, until it has done the request or refused it.
func (o *operator) ask(a node.Admin) (end string) {
	o.t.Helper()
	body, err := json.Marshal(a)
	if err != nil {
		o.t.Fatal(err)
	}
	for range 40 {
		l := o.leader()
		if l == nil {
			o.run(50 * time.Millisecond)
			continue
		}
		end = ""
		s, err := o.u.rpc.CreateSession(l.addr)
		if err != nil {
			o.t.Fatal(err)
		}
		req, err := o.u.rpc.Alloc(len(body))
		if err != nil {
			o.t.Fatal(err)
		}
		copy(req.Data(), body)
		_, err = o.u.rpc.EnqueueRequest(s, erpc.Request{Type: node.TypeAdmin, Req: req,
			Timeout: 2 * time.Second, Done: func(c erpc.Completion) {
				c.Req.Free()
				if c.Err != nil {
					end = erpc.CodeOf(c.Err).String()
					return
				}
				answer, _ := kv.ParseAnswer(c.Resp.Data())
				end = fmt.Sprint("status ", answer.Status)
				c.Resp.Free()
			}})
		if err != nil {
			o.t.Fatal(err)
		}
		o.u.ep.Wake()
		o.await(5*time.Second, "no end of a request", func() bool { return end != "" })
		if s.Err() == nil {
			_ = o.u.rpc.CloseSession(s)
		}
		if end == fmt.Sprint("status ", kv.OK) || end == erpc.CodeFailedPrecondition.String() ||
			end == fmt.Sprint("status ", kv.Malformed) {
			break
		}
		o.run(50 * time.Millisecond)
	}
	o.said[end]++
	return end
}

// kill ends a machine for good, but not the quorum.
func (o *operator) kill() {
	l := o.leader()
	if l == nil {
		return
	}
	victim := o.pick()
	voters, alive := l.n.Replica().Voters(), 0
	for _, s := range o.servers {
		if !s.down && s != victim && slices.Contains(voters, s.id) {
			alive++
		}
	}
	if alive > len(voters)/2 {
		victim.gone = true
		victim.crash()
	}
}

// TestMistakesOfOperators: whatever changes are asked for, and whichever machines die between them,
// as long as they are no majority: those that are left go on.
func TestMistakesOfOperators(t *testing.T) {
	notRaced(t)
	said := map[string]int{}
	for seed := range uint64(30) {
		sh := small
		sh.replicas, sh.durable, sh.disk = 3+2*int(seed%2), seed%3 == 0, time.Millisecond
		c := newCluster(t, rand.New(rand.NewPCG(seed, 45)),
			sim.Config{Seed: seed + 1, Checksum: true, PropDelay: 10 * time.Microsecond}, sh)
		o := &operator{cluster: c, said: said}
		o.u = c.user(1)
		c.await(10*time.Second, "no leader", func() bool { return c.leader() != nil })
		for range 4 { // they wait to be added
			c.machine().start()
		}
		for i := range 25 {
			a := o.request()
			end := o.ask(a)
			c.run(300 * time.Millisecond) // the others hear of it
			if o.r.IntN(6) == 0 {
				o.kill()
			}
			if r := c.put(o.u, fmt.Sprint(i)); r.Err != nil {
				t.Fatalf("seed %d: after %+v, %s: %v", seed, a, end, r.Err)
			}
		}
		c.close()
	}
	t.Log(said)
	for _, end := range []string{fmt.Sprint("status ", kv.OK), erpc.CodeFailedPrecondition.String()} {
		if said[end] < 50 {
			t.Errorf("%d requests ended with %s", said[end], end)
		}
	}
}
