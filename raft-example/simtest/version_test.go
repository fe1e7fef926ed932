package simtest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/node"
	"github.com/userspace-rpc/erpc/transport/sim"
)

// registrar leaves out what commit 4085675 has no handler for.
type registrar struct {
	node.Registrar
	old bool
}

func (g registrar) Register(typ uint8, mode erpc.Mode, fn erpc.Handler) error {
	if g.old && typ == node.TypeHello {
		return nil
	}
	return g.Registrar.Register(typ, mode, fn)
}

// ask sends one request, of a value as JSON, in a session of its own, and returns the answer, nil
// if there was none.
func (c *cluster) ask(u *user, s *server, typ uint8, v any) (answer []byte) {
	c.t.Helper()
	body, err := json.Marshal(v)
	if err != nil {
		c.t.Fatal(err)
	}
	sess, err := u.rpc.CreateSession(s.addr)
	if err != nil {
		c.t.Fatal(err)
	}
	answer, _ = c.call(u, sess, typ, body)
	_ = u.rpc.CloseSession(sess)
	return answer
}

// call sends one request in a session, and returns its answer.
func (c *cluster) call(u *user, s *erpc.Session, typ uint8, body []byte) (
	answer []byte, end error,
) {
	c.t.Helper()
	req, err := u.rpc.Alloc(len(body))
	if err != nil {
		c.t.Fatal(err)
	}
	copy(req.Data(), body)
	done := false
	_, err = u.rpc.EnqueueRequest(s, erpc.Request{Type: typ, Req: req,
		Timeout: 300 * time.Millisecond, Done: func(e erpc.Completion) {
			done, end = true, e.Err
			e.Req.Free()
			if e.Err == nil {
				answer = bytes.Clone(e.Resp.Data())
				e.Resp.Free()
			}
		}})
	if err != nil {
		c.t.Fatal(err)
	}
	u.ep.Wake()
	c.await(time.Second, "no end of a request", func() bool { return done })
	return answer, end
}

// upgrade asks one server to raise the version. ok is false if there was no answer.
func (c *cluster) upgrade(u *user, s *server) (got kv.Answer, ok bool) {
	c.t.Helper()
	b := c.ask(u, s, node.TypeAdmin, node.Admin{Cluster: testCluster, Upgrade: true})
	got, err := kv.ParseAnswer(b)
	return got, err == nil
}

// restart ends one server and starts it again, as an old program or a new one. An old one does not
// start on a folder of another format.
func (c *cluster) restart(s *server, old bool) {
	s.crash()
	c.run(c.below(80 * time.Millisecond))
	s.old = old && s.disk.id.Format == 0
	s.start()
}

// mixed reports whether a member is of format 0, or does not run.
func (c *cluster) mixed() bool {
	for _, s := range c.servers {
		if s.down || s.old {
			return true
		}
	}
	return false
}

// version is the highest that a replica has, and whether a folder is of a later format than 0.
func (c *cluster) version() (version uint8, stamped bool) {
	for _, s := range c.servers {
		version = max(version, s.n.Replica().Store().Version())
		stamped = stamped || binary.LittleEndian.Uint32(s.disk.log[8:]) > 1
	}
	return version, stamped
}

// TestVersions: members of format 0 and of today take each other's places under load, in losses and
// crashes, also as leaders and as receivers of snapshots. No upgrade comes through before all are
// of today, and nothing of format 1 is written; then one does. The history is linearizable, and all
// replicas agree.
func TestVersions(t *testing.T) {
	seeds := 8
	if testing.Short() {
		seeds = 2
	}
	oldLed, raised := 0, 0
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 85))
		sh := small
		sh.keep, sh.every, sh.lease = 10, 20, []time.Duration{0, 6 * tick}[seed%2]
		c := newCluster(t, r, sim.Config{Seed: seed, Checksum: true,
			PropDelay: 20 * time.Microsecond}, sh)
		op := c.user(1)
		for range 3 {
			u := c.user(3)
			u.until = c.net.Now().Add(time.Hour)
			u.loop()
		}
		_ = c.net.SetFaults(sim.Faults{Loss: 0.01, Duplicate: 0.02, Reorder: 0.02,
			ReorderDelay: time.Millisecond})
		upgrade := func() (done bool) {
			l := c.leader()
			if l == nil || l.old {
				return false
			}
			mixed := c.mixed()
			a, ok := c.upgrade(op, l)
			if done = ok && a.Status == kv.OK; done && mixed {
				t.Errorf("seed %d: raised with an older member", seed)
			}
			if text := a.Value.String(); mixed && ok && a.Status == kv.Malformed &&
				!strings.Contains(text, "format 0") && !strings.Contains(text, "not answer") {
				t.Errorf("seed %d: refused: %q", seed, text)
			}
			return done
		}
		for range 25 {
			c.restart(c.servers[r.IntN(3)], r.IntN(2) == 0)
			c.run(50*time.Millisecond + c.below(200*time.Millisecond))
			if l := c.leader(); l != nil && l.old {
				oldLed++
			}
			if c.mixed() {
				if upgrade(); t.Failed() {
					return
				}
			}
			if v, stamped := c.version(); v > 0 || stamped {
				t.Fatalf("seed %d: version %d, a folder of a later format: %v", seed, v, stamped)
			}
		}
		for _, s := range c.servers {
			c.restart(s, false)
		}
		if c.await(10*time.Second, "no upgrade", upgrade) {
			raised++
		}
		c.finish()
		c.close()
	}
	t.Logf("%d seeds: led by an old member %d times, raised %d times", seeds, oldLed, raised)
	if oldLed == 0 || raised != seeds {
		t.Error("the runs did too little")
	}
}

// finish goes on with crashes, then has the clients end, and checks what they saw.
func (c *cluster) finish() {
	c.t.Helper()
	for range 10 {
		c.restart(c.servers[c.r.IntN(len(c.servers))], false)
		c.run(c.below(200 * time.Millisecond))
	}
	for _, u := range c.clients {
		u.until = c.net.Now()
	}
	x := &run{cluster: c, sum: &totals{}}
	x.settle(3)
	for _, s := range c.servers {
		if v := s.n.Replica().Store().Version(); v != kv.Format || s.disk.id.Format != kv.Format {
			c.t.Errorf("replica %d: version %d, a folder of format %d", s.id, v, s.disk.id.Format)
		}
	}
	if ops, _ := c.hist.Len(); ops < 1000 {
		c.t.Errorf("%d operations", ops)
	}
	if err := c.hist.Check(time.Minute); err != nil {
		c.t.Error(err)
	}
}

// TestOldAfterRaise: with a member cut off no upgrade is taken. If it is cut off just when one is
// proposed, and comes back in the older program, whose folder knows nothing of that, it is sent
// nothing, and refused by name; in a program of today it catches up.
func TestOldAfterRaise(t *testing.T) {
	c, u := calm(t, small)
	if r := c.put(u, "before"); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.run(100 * time.Millisecond) // all have met all
	lead := c.leader()
	away := c.servers[lead.id%3]
	var rest []int
	for i := range c.nextSim {
		if i != away.machine {
			rest = append(rest, i)
		}
	}
	if err := c.net.Cut(rest, []int{away.machine}); err != nil {
		t.Fatal(err)
	}
	a, ok := c.upgrade(u, lead)
	if want := fmt.Sprintf("replica %d does not answer", away.id); !ok || a.Status != kv.Malformed ||
		a.Value.String() != want {
		t.Fatalf("%v, %+v, want %s", ok, a, want)
	}
	if err := lead.n.Replica().Raise(kv.Format, ^uint64(0)); err != nil {
		t.Fatal(err)
	}
	lead.n.Poll()
	lead.ep.Wake()
	c.await(time.Second, "not raised", func() bool {
		return lead.n.Replica().Store().Version() == kv.Format
	})
	if a, ok := c.upgrade(u, lead); !ok || a.Status != kv.OK || !a.Found || a.Number != kv.Format {
		t.Errorf("a second time: %v, %+v", ok, a)
	}
	c.restart(away, true)
	if !away.old {
		t.Fatal("its folder is raised already")
	}
	c.net.Heal()
	for i := range 20 { // an old one that stands for election must not win, nor end the leader
		if r := c.put(u, fmt.Sprint(i)); r.Err != nil {
			t.Fatal(r.Err)
		}
		c.run(50 * time.Millisecond)
	}
	if st := away.n.Replica().Status(); st.Applied >= lead.n.Replica().Status().Applied-20 ||
		away.n.Replica().Format() > 0 {
		t.Errorf("it has got %+v, of format %d", st, away.n.Replica().Format())
	}
	var st struct{ Peers []node.Companion }
	if err := json.Unmarshal(c.ask(u, c.leader(), node.TypeStatus, nil), &st); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(st.Peers, func(p node.Companion) bool { return p.ID == away.id })
	if p := st.Peers[i]; !p.Met || p.Said || !strings.HasPrefix(p.Err, node.ErrFormat.Error()) {
		t.Errorf("the leader says of it %+v", p)
	}
	c.restart(away, false)
	c.await(5*time.Second, "it does not catch up", func() bool {
		return away.n.Replica().Store().Version() == kv.Format &&
			away.n.Replica().Status().Applied == c.leader().n.Replica().Status().Applied
	})
}
