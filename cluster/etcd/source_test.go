package etcd

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/cluster"
)

// write puts entries without a lease.
func (m *model) write(addrs ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, addr := range addrs {
		e := cluster.Entry{Addr: addr, Instance: "i"}
		value, _ := e.Encode() // it is one
		m.revision++
		m.keys[servers+"web/"+addr] = modelKey{value: string(value), revision: m.revision}
		m.log = append(m.log, pair{servers + "web/" + addr, string(value), m.revision})
	}
	m.move()
}

// follow watches, and returns how many views there were and the addresses in the last one.
func (w *world) follow(ctx context.Context, p *process) func() (int, []string) {
	c := w.config()
	c.Cluster, c.Probe = "", time.Hour
	s, err := newSource(p, p.clock(), c)
	if err != nil {
		w.t.Fatal(err)
	}
	n, last := 0, cluster.View{}
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	go func() {
		_ = s.Watch(ctx, func(v cluster.View) {
			w.m.mu.Lock()
			defer w.m.mu.Unlock()
			n, last = n+1, v
		}, func(error) {})
	}()
	return func() (int, []string) {
		w.m.mu.Lock()
		defer w.m.mu.Unlock()
		var addrs []string
		for _, e := range last.Entries {
			addrs = append(addrs, e.Addr)
		}
		return n, addrs
	}
}

// TestForgotten: an etcd that has lost its data, keeps its id, and is past the view's revision when
// it can be reached again, is listed anew.
func TestForgotten(t *testing.T) {
	quiet(t, func(w *world, d *deaf) {
		w.m.write("a:1", "b:1")
		ctx, cancel := context.WithCancel(w.t.Context())
		defer cancel()
		seen := w.follow(ctx, d.process)
		<-time.After(time.Second)
		if _, addrs := seen(); !slices.Equal(addrs, []string{"a:1", "b:1"}) {
			w.t.Fatal(addrs)
		}
		w.m.replace(false)
		w.m.write("c:1", "b:1", "b:1", "b:1")
		<-time.After(time.Minute)
		if _, addrs := seen(); !slices.Equal(addrs, []string{"b:1", "c:1"}) {
			w.t.Errorf("the view has %v", addrs)
		}
	})
}

// TestFlaps: entries that change without end make a view each minSpan at most, and the last one is
// right.
func TestFlaps(t *testing.T) {
	quiet(t, func(w *world, d *deaf) {
		ctx, cancel := context.WithCancel(w.t.Context())
		defer cancel()
		seen := w.follow(ctx, d.process)
		begin := time.Now()
		var want []string
		for i := range 1000 {
			addr := fmt.Sprintf("h%d:1", i%10)
			if i < 10 {
				want = append(want, addr)
			}
			w.m.write(addr)
			<-time.After(time.Millisecond)
		}
		most := int(time.Since(begin)/minSpan*11/10) + 2 // the process's clock may be fast
		<-time.After(time.Second)
		if n, addrs := seen(); n > most || !slices.Equal(addrs, want) {
			w.t.Errorf("%d views, want at most %d; the last has %v", n, most, addrs)
		}
	})
}
