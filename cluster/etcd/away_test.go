package etcd

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/userspace-rpc/erpc/cluster"
)

// TestAwayForAMinute: while etcd is away for six leases, servers serve and a client keeps them.
// Afterwards all are as before, one that was killed meanwhile goes, and one that came is seen.
func TestAwayForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, m: newModel(), r: rand.New(rand.NewPCG(49, 60))}
		add := func(name string) {
			w.add(name, false)
			s := w.servers[len(w.servers)-1]
			for s.p.calm = true; s.reg == nil; {
				w.register(s)
			}
		}
		for i := range 10 {
			add(fmt.Sprintf("web-%d", i))
		}
		p := newProcess(w.m, "client", w.r)
		p.calm = true
		s, err := newSource(p, p.clock(), w.config())
		if err != nil {
			t.Fatal(err)
		}
		names, err := cluster.NewResolver(s, cluster.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if err := names.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.m.stop(true)
		said := false
		for range 6000 {
			<-time.After(10 * time.Millisecond)
			said = said || errors.Is(names.View().Err, cluster.ErrUnavailable)
			for _, s := range w.servers[1:] {
				if err := s.reg.Serving(); err != nil {
					t.Fatalf("%s while etcd is away: %v", s.e.Name, err)
				}
			}
			if n := len(names.Choice().Preferred); n != 10 {
				t.Fatalf("while etcd is away a client has %d servers", n)
			}
		}
		if !said {
			t.Error("nobody was told that etcd is away")
		}
		w.servers[0].p.set(func() { w.servers[0].p.dead = true })
		w.servers[0].reg.cancel()
		w.servers = w.servers[1:]
		w.m.stop(false)
		add("late")
		<-time.After(3 * ttl) // the dead one's lease begins anew when etcd is back
		v := names.View()
		if len(v.Entries) != 10 || v.Err != nil {
			t.Errorf("a view of %d servers, %v", len(v.Entries), v.Err)
		}
		for _, e := range v.Entries {
			if e.Name == "web-0" {
				t.Error("the dead one is in the view")
			}
		}
		for _, s := range w.servers {
			if !s.reg.Held() {
				t.Errorf("%s is not held", s.e.Name)
			}
			_ = s.reg.Close(t.Context())
		}
		_ = names.Close()
		<-time.After(2 * ttl)
	})
}
