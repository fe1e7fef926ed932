package etcd

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/userspace-rpc/erpc/cluster"
)

var (
	seeds = flag.Int("cluster.seeds", 50, "how many seeds TestSeeds runs")
	from  = flag.Uint64("cluster.from", 1, "the first one")
)

// TestSeeds: servers and clients with clocks that drift, on a model of etcd, through random
// partitions, pauses, deaths, restarts, compactions, and absences of etcd. See world.check and
// settle.
func TestSeeds(t *testing.T) {
	n := *seeds
	if testing.Short() {
		n = min(n, 10)
	}
	for i := range n {
		seed := *from + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runSeed(t, seed) })
		})
	}
}

const ttl = 10 * time.Second

// world is one run.
type world struct {
	t       *testing.T
	m       *model
	r       *rand.Rand
	servers []*server
	clients []*client
	wait    sync.WaitGroup
}

type server struct {
	p     *process
	e     cluster.Entry
	rival bool          // it claims the address of another one
	reg   *Registration // nil: not registered yet
}

type client struct {
	p     *process
	names *cluster.Resolver
	had   bool // it has had servers
}

func (w *world) config() Config {
	return Config{Service: "web", Cluster: "prod", TTL: ttl, Drift: ttl / 10, Probe: 2 * time.Second}
}

func runSeed(t *testing.T, seed uint64) {
	w := &world{t: t, m: newModel(), r: rand.New(rand.NewPCG(seed, 49))}
	ctx, cancel := context.WithCancel(context.Background())
	w.wait.Go(func() { w.expire(ctx) })
	for i := range 2 + w.r.IntN(4) {
		w.add(fmt.Sprintf("web-%d", i), false)
	}
	for range 1 + w.r.IntN(3) {
		p := newProcess(w.m, "client", w.r)
		s, err := newSource(p, p.clock(), w.config())
		if err != nil {
			t.Fatal(err)
		}
		names, err := cluster.NewResolver(s, cluster.Config{})
		if err != nil {
			t.Fatal(err)
		}
		w.clients = append(w.clients, &client{p: p, names: names})
	}
	for range 40 {
		w.event()
		for range 1 + w.r.IntN(40) {
			<-time.After(50 * time.Millisecond)
			w.check()
		}
		if t.Failed() {
			break
		}
	}
	w.settle()
	for _, c := range w.clients {
		_ = c.names.Close()
	}
	for _, s := range w.servers {
		if s.reg != nil {
			_ = s.reg.Close(ctx)
		}
	}
	cancel()
	w.wait.Wait()
	<-time.After(2 * ttl) // timers that nobody waits for
}

// expire ends leases, as late as etcd does.
func (w *world) expire(ctx context.Context) {
	for ctx.Err() == nil {
		<-time.After(500 * time.Millisecond)
		w.m.mu.Lock()
		w.m.expire()
		w.m.mu.Unlock()
	}
}

// add starts a server, a process after an earlier one, or a rival of it.
func (w *world) add(name string, rival bool) {
	s := &server{p: newProcess(w.m, name, w.r), rival: rival}
	s.e = cluster.Entry{Addr: name + ":1", Name: name}
	if w.r.IntN(3) == 0 {
		s.e.Transports = map[string]string{cluster.UDP: s.e.Addr, cluster.GRPC: s.e.Addr}
	}
	if rival {
		s.e.Name = fmt.Sprintf("rival-%d", len(w.servers))
	}
	w.servers = append(w.servers, s)
	w.register(s)
}

// register tries to register a server that is not.
func (w *world) register(s *server) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	reg, err := register(ctx, s.p, s.p.clock(), w.config(), s.e)
	if err == nil {
		s.reg = reg
	} else if !errors.Is(err, cluster.ErrUnavailable) &&
		!(errors.Is(err, cluster.ErrAddressTaken) && w.contested(s.e.Addr)) {
		w.t.Errorf("register %s: %v", s.p.name, err)
	}
}

// contested reports whether servers of two names claim an address.
func (w *world) contested(addr string) bool {
	return slices.ContainsFunc(w.servers, func(s *server) bool { return s.rival && s.e.Addr == addr })
}

// event lets something happen.
func (w *world) event() {
	s := w.servers[w.r.IntN(len(w.servers))]
	c := w.clients[w.r.IntN(len(w.clients))]
	switch w.r.IntN(12) {
	case 0:
		s.p.set(func() { s.p.cut = !s.p.cut })
	case 1:
		c.p.set(func() { c.p.cut = !c.p.cut })
	case 2, 3:
		if s.p.running() {
			d := time.Duration(w.r.IntN(30000)) * time.Millisecond
			p, reg := s.p, s.reg
			w.wait.Go(func() { p.stopFor(d, func() { w.serves(p, reg) }) })
		}
	case 4:
		if c.p.running() {
			d := time.Duration(w.r.IntN(30000)) * time.Millisecond
			w.wait.Go(func() { c.p.stopFor(d, func() {}) })
		}
	case 5: // it is killed and started again
		if s.p.running() && s.reg != nil {
			s.p.set(func() { s.p.dead = true })
			s.reg.cancel()
			s.reg, s.p = nil, newProcess(w.m, s.p.name, w.r)
		}
	case 6: // another process has its name, or claims its address
		if s.reg != nil && len(w.servers) < 12 {
			w.add(s.p.name, w.r.IntN(2) == 0)
		}
	case 7:
		w.m.compact()
	case 8:
		w.m.stop(true)
	case 9, 10:
		w.m.stop(false)
	case 11:
		if w.r.IntN(4) == 0 {
			w.m.replace(w.r.IntN(2) == 0)
		}
	}
	for _, s := range w.servers {
		if s.reg == nil && s.p.running() {
			w.register(s)
		}
	}
}

// running reports whether the process does not stand.
func (p *process) running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.resume == nil
}

// serves looks whether a server that stood past its lease serves before it has asked etcd.
func (w *world) serves(p *process, reg *Registration) {
	if reg == nil {
		return
	}
	p.mu.Lock()
	unasked := !p.dead && p.stood > ttl*11/10 && p.asked.Before(p.resumed)
	p.mu.Unlock()
	if err := reg.Serving(); err == nil && unasked {
		w.t.Errorf("%s stood for %v and serves, without asking etcd", p.name, p.stood)
	}
}

// check looks at what holds at any time. That one registration at most is held does not, for a
// lease after etcd has lost what it knew.
func (w *world) check() {
	w.m.mu.Lock()
	forgot := !w.m.replaced.IsZero() && time.Since(w.m.replaced) < 2*ttl
	w.m.mu.Unlock()
	held := map[string]*server{}
	for _, s := range w.servers {
		if s.reg == nil && s.rival && s.p.running() {
			w.register(s)
		}
		if s.reg == nil || !s.p.running() {
			continue
		}
		if s.reg.Held() && !forgot {
			if o := held[s.e.Addr]; o != nil {
				w.t.Errorf("%s is held by instances %s and %s", s.e.Addr, o.reg.Entry().Instance,
					s.reg.Entry().Instance)
			}
			held[s.e.Addr] = s
		}
		w.serves(s.p, s.reg)
	}
	for _, c := range w.clients {
		has := len(c.names.Choice().Preferred) > 0
		if c.had && !has {
			w.t.Error("a client has lost all servers")
		}
		c.had = c.had || has
	}
}

// settle mends everything, and looks whether all becomes as it should be.
func (w *world) settle() {
	w.m.stop(false)
	for _, s := range w.servers {
		s.p.set(func() { s.p.cut, s.p.calm = false, true })
	}
	for _, c := range w.clients {
		c.p.set(func() { c.p.cut, c.p.calm = false, true })
	}
	<-time.After(30 * time.Second) // those that stand go on
	for range 5 {
		for _, s := range w.servers {
			if s.reg == nil {
				w.register(s)
			}
		}
		<-time.After(ttl)
	}
	var want []string
	numbers := map[int]string{}
	owned := map[string]bool{}
	for _, s := range w.servers {
		if s.reg == nil {
			if !w.contested(s.e.Addr) {
				w.t.Errorf("%s is not registered", s.e.Addr)
			}
			continue
		}
		e := s.reg.Entry()
		owner := w.m.owner(e.Addr)
		stands := owner.Instance == e.Instance
		switch err := s.reg.Err(); {
		case err != nil && (stands || !errors.Is(err, cluster.ErrReplaced)):
			w.t.Errorf("%s: %v", e.Addr, err)
		case err != nil:
		case owner.Name == e.Name && !stands:
			w.t.Errorf("%s of %s does not know that it was replaced", e.Addr, e.Instance)
		case stands:
			if err := s.reg.Serving(); err != nil || !s.reg.Held() {
				w.t.Errorf("%s: %v, held %v", e.Addr, err, s.reg.Held())
			}
			if o := numbers[e.Number]; o != "" || e.Number == 0 {
				w.t.Errorf("%s and %s have the number %d", e.Addr, o, e.Number)
			}
			numbers[e.Number], owned[e.Addr] = e.Addr, true
			want = append(want, e.Addr+" "+e.Instance)
		case s.reg.Held():
			w.t.Errorf("%s is held, and not in etcd", e.Addr)
		}
	}
	for _, s := range w.servers {
		if !owned[s.e.Addr] {
			w.t.Errorf("nobody has %s", s.e.Addr)
		}
	}
	slices.Sort(want)
	for _, c := range w.clients {
		v := c.names.View()
		var have []string
		for _, e := range v.Entries {
			have = append(have, e.Addr+" "+e.Instance)
		}
		if slices.Sort(have); !slices.Equal(have, want) || v.Err != nil {
			w.t.Errorf("a client has %q, %v\nwant %q", have, v.Err, want)
		}
	}
}

// owner returns the entry that stands at an address.
func (m *model) owner(addr string) cluster.Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	value := m.keys["web/"+addr].value + m.keys[servers+"web/"+addr].value // one of them, or none
	e, _ := cluster.Decode([]byte(value))                                  // nobody's if there is none
	return e
}

// TestHeld: one registration of an address is held at most, where the first one's clock is slow,
// its answers come late, and the second one registers as soon as etcd lets it.
func TestHeld(t *testing.T) {
	for _, late := range []time.Duration{0, 1500 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			w := &world{t: t, m: newModel(), r: rand.New(rand.NewPCG(1, 1))}
			var sides [2]*process
			for i := range sides {
				sides[i] = newProcess(w.m, "web", w.r)
				sides[i].calm = true
			}
			sides[0].rate, sides[0].late = 0.96, late
			first := &server{p: sides[0], e: cluster.Entry{Addr: "web:1", Name: "first"}}
			second := &server{p: sides[1], e: cluster.Entry{Addr: "web:1", Name: "second"}, rival: true}
			w.servers = append(w.servers, first, second)
			reg, err := register(t.Context(), first.p, first.p.clock(), w.config(), first.e)
			if err != nil {
				t.Fatal(err)
			}
			first.reg = reg
			<-time.After(ttl)
			if !reg.Held() {
				t.Error("the first one is not held, with etcd there")
			}
			for before := reg.until.Load(); reg.until.Load() == before; {
				<-time.After(time.Millisecond)
			}
			first.p.set(func() { first.p.cut = true }) // right after a renewal
			for reg.Held() {
				w.check() // which registers the rival
				if second.reg != nil && second.reg.Held() && reg.Held() {
					t.Fatal("both are held")
				}
				<-time.After(time.Millisecond)
			}
			for second.reg == nil {
				w.check()
				<-time.After(time.Millisecond)
			}
			first.p.set(func() { first.p.dead = true })
			reg.cancel()
			_ = second.reg.Close(t.Context())
			<-time.After(2 * ttl)
		})
	}
}
