package etcd

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/userspace-rpc/erpc/cluster"
	"github.com/userspace-rpc/erpc/erpc"
)

// numbered is a client that has, or wants, a number.
type numbered struct {
	p     *process
	n     *Number
	tries int
}

func (w *world) numberedClient(name string) *numbered {
	p := newProcess(w.m, name, w.r)
	p.calm = true
	return &numbered{p: p}
}

// claim claims a number, as often as it takes.
func (c *numbered) claim(w *world) {
	for c.n == nil {
		c.tries++
		n, err := claimNumber(w.t.Context(), c.p, c.p.clock(), w.config(), "a", c.p.name)
		if err != nil && !errors.Is(err, cluster.ErrUnavailable) {
			w.t.Error(err)
			return
		}
		c.n = n
	}
}

// distinct checks that no two clients have one number, and that the numbers have few holes.
func distinct(t *testing.T, what string, list []*numbered, most uint64) {
	t.Helper()
	who := map[uint64]string{}
	for _, c := range list {
		v := c.n.Value()
		if o, taken := who[v]; taken || v > most {
			t.Errorf("%s: %s has the number %d, %q has it too; the highest is to be %d", what, c.p.name, v,
				o, most)
		}
		who[v] = c.p.name
	}
}

// TestNumbers: clients that come at once have numbers of their own without large holes. A process
// that is started again has the one of before, one that was given back is taken first, and clients
// whose leases are over, since etcd was out of reach, have numbers of their own again.
func TestNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, m: newModel(), r: rand.New(rand.NewPCG(49, 3))}
		var list []*numbered
		var all sync.WaitGroup
		for i := range 150 {
			c := w.numberedClient(fmt.Sprintf("client-%d", i))
			list = append(list, c)
			all.Go(func() { c.claim(w) })
		}
		all.Wait()
		distinct(t, "at once", list, 149)
		if w.m.refused > 3*len(list) { // without their line it is fifteen times
			t.Errorf("%d clients were too late for a number %d times", len(list), w.m.refused)
		}
		for _, c := range list {
			if c.tries > 1 {
				t.Errorf("%s has given up, since others were faster", c.p.name)
			}
		}

		again := w.numberedClient("client-7") // and the old process is there still
		if again.claim(w); again.n.Value() != list[7].n.Value() {
			t.Errorf("a process started again has %d, its name has %d", again.n.Value(),
				list[7].n.Value())
		}
		list[7].p.set(func() { list[7].p.dead = true })
		list[7].n.cancel()
		list[7] = again

		lowest := list[0]
		for _, c := range list {
			if c.n.Value() < lowest.n.Value() {
				lowest = c
			}
		}
		back := lowest.n.Value()
		if err := lowest.n.Close(t.Context()); err != nil {
			t.Error(err)
		}
		lowest.n, lowest.p.name = nil, "newcomer"
		if lowest.claim(w); lowest.n.Value() != back {
			t.Errorf("%d is free, and a newcomer has %d", back, lowest.n.Value())
		}

		for _, c := range list[20:] {
			c.p.set(func() { c.p.cut = true })
		}
		for range 30 {
			<-time.After(ttl / 10)
			w.m.mu.Lock()
			w.m.expire()
			w.m.mu.Unlock()
		}
		var late []*numbered
		for i := range 10 {
			c := w.numberedClient(fmt.Sprintf("late-%d", i))
			c.claim(w)
			late = append(late, c)
		}
		for _, c := range list {
			c.p.set(func() { c.p.cut = false })
		}
		<-time.After(3 * ttl)
		distinct(t, "after their leases", append(list, late...), 159)
		for _, c := range append(list, late...) {
			_ = c.n.Close(t.Context())
		}
		if got, _, _ := again.p.list(t.Context(), clients); len(got) != 0 {
			t.Errorf("after Close there are %v", got)
		}
		<-time.After(2 * ttl)
	})
}

// TestClaimNumberFails: what cannot be meant, and another etcd, are named.
func TestClaimNumberFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, m: newModel(), r: rand.New(rand.NewPCG(1, 1))}
		p := newProcess(w.m, "client", w.r)
		p.calm = true
		if _, err := ClaimNumber(t.Context(), nil, w.config(), "a", ""); !errors.Is(err, erpc.ErrConfig) {
			t.Error(err)
		}
		_, err := claimNumber(t.Context(), p, p.clock(), w.config(), "a/b", "")
		if !errors.Is(err, erpc.ErrConfig) {
			t.Error(err)
		}
		other := w.config()
		other.EtcdID = 7
		_, err = claimNumber(t.Context(), p, p.clock(), other, "a", "")
		if !errors.Is(err, cluster.ErrWrongEtcd) || errors.Is(err, cluster.ErrUnavailable) {
			t.Error(err)
		}
		<-time.After(2 * ttl) // the clock's timers end
	})
}
