package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/client"
	"github.com/userspace-rpc/erpc/raft-example/node"
	"github.com/userspace-rpc/erpc/raft-example/replica"
)

var (
	chaosFor  = flag.Duration("chaos.for", 0, "how long TestChaos goes on; some seconds without it")
	chaosSeed = flag.Uint64("chaos.seed", 0, "of its choices; a new one without it")
)

// chaos is a durable cluster of processes, its network, its clients, and who makes trouble.
type chaos struct {
	t       *testing.T
	ctx     context.Context
	r       *rand.Rand
	weather *weather
	net     chaosNet
	cf      clientFlags
	traffic *traffic
	flags   atomic.Pointer[clientFlags] // cf, for others
	dir     string
	members map[int]*chaosMember
	last    int            // number given to a member
	did     map[string]int // troubles, by name
}

// chaosMember is one replica, whose process may be dead.
type chaosMember struct {
	child
	listen  string
	args    []string // how it learns of the others
	dead    bool
	stopped bool
}

// TestChaos: a cluster of processes under load, behind a network with loss, delay and one-way cuts,
// with kill -9, power failures, SIGSTOP, replaced members and a hostile client. The history is
// linearizable, nothing acknowledged is lost, and in the end the cluster works. As root each
// process is in a network namespace of its own, else a proxy is between them.
func TestChaos(t *testing.T) {
	seed := *chaosSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	nets := map[string]func(*weather) (chaosNet, error){"namespaces": openSpaces,
		"proxy": func(w *weather) (chaosNet, error) { return newProxy(w), nil }}
	ran := false
	for _, name := range []string{"namespaces", "proxy"} {
		if ran && *chaosFor > 0 {
			break // one is enough
		}
		t.Run(name, func(t *testing.T) {
			w := newWeather(seed)
			net, err := nets[name](w)
			if err != nil {
				t.Skip(err)
			}
			ran = true
			runChaos(t, w, net, seed)
		})
	}
}

func runChaos(t *testing.T, w *weather, net chaosNet, seed uint64) {
	took := *chaosFor
	if took == 0 {
		if took = 5 * time.Second; testing.Short() {
			took = 2 * time.Second
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), took+3*time.Minute)
	defer cancel()
	c := &chaos{t: t, ctx: ctx, r: rand.New(rand.NewPCG(seed, 2)), weather: w, net: net,
		dir: t.TempDir(), members: map[int]*chaosMember{}, did: map[string]int{},
		cf: clientFlags{netFlags: netFlags{Transport: "udp", Cluster: 5}, Timeout: 10 * time.Second}}
	defer c.close()
	defer func() {
		if t.Failed() {
			t.Logf("the script of this run again: -chaos.seed %d, after %v", seed, c.did)
			c.tell()
		}
	}()
	c.begin()
	var h *hostile
	if _, is := net.(*proxy); !is {
		h = c.beHostile(seed)
	}
	for end := time.Now().Add(took); time.Now().Before(end); {
		c.trouble()
		c.traffic.epoch.Add(1)
	}
	c.calm()
	c.check(c.traffic.more(ctx, 50))
	if h != nil {
		h.end(c)
	}
	c.check(c.net.inside(func() error { return c.traffic.end(ctx, c.cf) }))
	ops, unknown := c.traffic.hist.Len()
	lost, sent := w.counts()
	t.Logf("seed %d: %v; %d of %d packets lost; %d operations, %d of unknown outcome; no write for %v",
		seed, c.did, lost, sent, ops, unknown, time.Duration(c.traffic.gap.Load()))
}

func (c *chaos) check(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// begin starts three replicas and the clients.
func (c *chaos) begin() {
	var peers []string
	for range 3 {
		m := c.member()
		peers = append(peers, fmt.Sprintf("%d=%s", m.id, m.addr))
	}
	for _, id := range c.ids() {
		c.members[id].args = []string{"--peers=" + strings.Join(peers, ",")}
		c.start(c.members[id])
	}
	c.serversOf()
	c.traffic = &traffic{keys: 6, wait: 2 * time.Second, pause: 2 * time.Millisecond}
	c.check(c.net.inside(func() error { return c.traffic.start(c.ctx, c.cf, 4) }))
}

// tell logs what each member says of itself and of the cluster.
func (c *chaos) tell() {
	var b *client.Blocking
	err := c.net.inside(func() (err error) { b, err = c.cf.dial(); return err })
	if err != nil {
		c.t.Log(err)
		return
	}
	defer b.Close()
	list, err := statuses(context.Background(), b, strings.Split(c.cf.Servers, ","))
	c.weather.change(func() {
		c.t.Logf("%d members, %v; cut %v, loss %.2f, delay %v", len(list), err, c.weather.cut,
			c.weather.loss, c.weather.delay)
	})
	for _, s := range list {
		c.t.Logf("%+v", s)
	}
	for _, m := range c.members {
		c.t.Logf("replica %d at %s, dead %v: %s", m.id, m.addr, m.dead, m.text())
	}
}

func (c *chaos) ids() []int { return slices.Sorted(maps.Keys(c.members)) }

// any returns a member, the same for the same seed.
func (c *chaos) any() *chaosMember {
	ids := c.ids()
	return c.members[ids[c.r.IntN(len(ids))]]
}

// serversOf tells later clients the members. Those that run learn them from the cluster.
func (c *chaos) serversOf() {
	var addrs []string
	for _, id := range c.ids() {
		addrs = append(addrs, c.members[id].addr)
	}
	c.cf.Servers = strings.Join(addrs, ",")
	c.flags.Store(new(c.cf))
}

// member plans one more replica.
func (c *chaos) member() *chaosMember {
	c.last++
	listen, known, err := c.net.place(c.last)
	c.check(err)
	m := &chaosMember{listen: listen, args: []string{"--join"}, dead: true}
	m.id, m.addr, m.dir = uint64(c.last), known, filepath.Join(c.dir, fmt.Sprint(c.last))
	c.members[c.last] = m
	return m
}

// start starts a member that is dead. Every other time its disk forgets what is not synced when it
// is killed.
func (c *chaos) start(m *chaosMember) {
	c.t.Helper()
	exe, err := os.Executable()
	c.check(err)
	args := append([]string{"server", "--child", "--json", fmt.Sprint("--id=", m.id),
		"--addr=" + m.listen, "--cluster=5", "--dir=" + m.dir, fmt.Sprint("--tick=", testTick),
		"--scrub=1s"}, m.args...)
	if _, is := c.net.(*proxy); is {
		args = append(args, "--peers-anywhere") // they come from the proxy's
	}
	if c.r.IntN(2) == 0 {
		args = append(args, "--volatile")
		c.did["disks that forget"]++
	}
	run := func(cmd *exec.Cmd) error { return c.net.start(int(m.id), cmd) }
	c.check(m.launch(exec.Command(exe, args...), run))
	m.dead = false
}

// trouble makes one kind of it for a while. Others may still last.
func (c *chaos) trouble() {
	for _, m := range c.members {
		if m.dead {
			continue
		}
		select {
		case <-m.ended:
			c.t.Fatalf("replica %d has ended by itself: %s", m.id, m.text())
		default:
		}
	}
	kinds := []struct {
		name string
		do   func()
	}{{"kills", c.kill}, {"kills", c.kill}, {"kills of all", c.killAll}, {"pauses", c.pause},
		{"cuts", c.cut}, {"one-way cuts", c.oneWay}, {"weather", c.badWeather},
		{"weather", c.badWeather}, {"members replaced", c.replace}, {"quiet", c.calm}}
	k := kinds[c.r.IntN(len(kinds))]
	c.did[k.name]++
	k.do()
	c.wait(100*time.Millisecond, 800*time.Millisecond)
}

// wait lets trouble last.
func (c *chaos) wait(from, to time.Duration) {
	select {
	case <-time.After(from + time.Duration(c.r.Int64N(int64(to-from)))):
	case <-c.ctx.Done():
		c.t.Fatal(c.ctx.Err())
	}
}

// kill kills one that lives, and starts all that are dead after a while. One may stay dead.
func (c *chaos) kill() {
	m := c.any()
	if !m.dead {
		c.resume(m)
		c.check(m.child.kill())
		m.dead = true
		c.wait(10*time.Millisecond, 500*time.Millisecond)
	}
	if c.r.IntN(3) > 0 {
		c.revive()
	}
}

// killAll ends all at once: the power fails.
func (c *chaos) killAll() {
	for _, id := range c.ids() {
		if m := c.members[id]; !m.dead {
			c.resume(m)
			c.check(m.cmd.Process.Kill())
			m.dead = true
			<-m.ended
		}
	}
	c.revive()
}

// revive starts all that are dead.
func (c *chaos) revive() {
	for _, id := range c.ids() {
		if m := c.members[id]; m.dead {
			c.start(m)
		}
	}
}

// pause stops one, which goes on later.
func (c *chaos) pause() {
	m := c.any()
	if m.dead {
		return
	}
	switch err := stopProcess(m.cmd.Process); {
	case errors.Is(err, errors.ErrUnsupported):
		return
	default:
		c.check(err)
	}
	m.stopped = true
	c.wait(50*time.Millisecond, 1500*time.Millisecond)
	c.resume(m)
}

func (c *chaos) resume(m *chaosMember) {
	if m.stopped {
		m.stopped = false
		c.check(contProcess(m.cmd.Process))
	}
}

// cut cuts a member off, in both directions, maybe from the clients too.
func (c *chaos) cut() {
	id := int(c.any().id)
	others := c.ids()
	if c.r.IntN(2) == 0 {
		others = append(others, outside)
	}
	c.weather.change(func() {
		clear(c.weather.cut)
		for _, o := range others {
			c.weather.cut[[2]int{id, o}], c.weather.cut[[2]int{o, id}] = true, true
		}
	})
}

// oneWay cuts some links in one direction.
func (c *chaos) oneWay() {
	ids := c.ids()
	var links [][2]int
	for range 1 + c.r.IntN(3) {
		links = append(links, [2]int{ids[c.r.IntN(len(ids))], ids[c.r.IntN(len(ids))]})
	}
	c.weather.change(func() {
		clear(c.weather.cut)
		for _, l := range links {
			c.weather.cut[l] = true
		}
	})
}

func (c *chaos) badWeather() {
	loss, delay := c.r.Float64()*0.3, time.Duration(c.r.IntN(30))*time.Millisecond
	c.weather.change(func() { c.weather.loss, c.weather.delay = loss, delay })
}

// calm ends all trouble.
func (c *chaos) calm() {
	c.weather.clear()
	for _, m := range c.members {
		c.resume(m)
	}
	c.revive()
}

// replace adds a new member and removes another one, in weather that lets through some packets.
func (c *chaos) replace() {
	c.weather.change(func() { clear(c.weather.cut) })
	for _, m := range c.members {
		c.resume(m)
	}
	c.revive()
	old := c.any()
	fresh := c.member()
	c.start(fresh)
	c.change(node.Admin{Change: replica.Add, ID: fresh.id, Addr: fresh.addr})
	c.serversOf()
	c.agree(fresh.id, true)
	c.change(node.Admin{Change: replica.Remove, ID: old.id})
	delete(c.members, int(old.id))
	c.serversOf()
	c.agree(old.id, false)
	c.check(old.child.kill())
	c.check(os.RemoveAll(old.dir))
}

// admin calls do with a client of the cluster.
func (c *chaos) admin(do func(b *client.Blocking) error) {
	c.t.Helper()
	var b *client.Blocking
	c.check(c.net.inside(func() (err error) { b, err = c.cf.dial(); return err }))
	err := do(b)
	b.Close()
	c.check(err)
}

func (c *chaos) change(a node.Admin) {
	c.t.Helper()
	a.Cluster = c.cf.netFlags.Cluster
	c.admin(func(b *client.Blocking) error {
		for {
			_, err := change(c.ctx, b, strings.Split(c.cf.Servers, ","), a)
			if !errors.Is(err, node.ErrUnsafe) || c.ctx.Err() != nil {
				return err // else members did not answer, in bad weather
			}
		}
	})
}

// agree waits until a majority knows that a replica is a member, or is none.
func (c *chaos) agree(id uint64, is bool) {
	c.t.Helper()
	c.admin(func(b *client.Blocking) error {
		for {
			list, _ := statuses(c.ctx, b, strings.Split(c.cf.Servers, ","))
			know := 0
			for _, s := range list {
				if _, member := s.Members[id]; s.ID != 0 && member == is && len(s.Outgoing) == 0 {
					know++
				}
			}
			if know > len(list)/2 {
				return nil
			}
			if c.ctx.Err() != nil {
				return fmt.Errorf("replica %d, to be a member: %v: %d of %d know it", id, is, know, len(list))
			}
		}
	})
}

func (c *chaos) close() {
	if c.traffic != nil && c.traffic.stop != nil {
		c.traffic.stop()
		c.traffic.wg.Wait()
	}
	for _, m := range c.members {
		c.resume(m)
		m.stop()
	}
	c.net.close()
}
