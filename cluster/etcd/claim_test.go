package etcd

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/userspace-rpc/erpc/cluster"
)

// deaf is a process that hears no answer to some requests, although etcd has done what they ask.
type deaf struct {
	*process
	toGrant, toPut, toRevoke bool
}

func (d *deaf) grant(
	ctx context.Context, ttl time.Duration,
) (lease int64, got time.Duration, err error) {
	if d.toGrant {
		<-ctx.Done()
		return 0, 0, ctx.Err()
	}
	return d.process.grant(ctx, ttl)
}

func (d *deaf) put(ctx context.Context, lease int64, pairs ...pair) (bool, header, error) {
	ok, h, err := d.process.put(ctx, lease, pairs...)
	if d.toPut {
		<-ctx.Done()
		return false, header{}, ctx.Err()
	}
	return ok, h, err
}

func (d *deaf) revoke(ctx context.Context, lease int64) error {
	if d.toRevoke {
		<-ctx.Done()
		return ctx.Err()
	}
	return d.process.revoke(ctx, lease)
}

// quiet runs fn with a model and a process whose network is fast.
func quiet(t *testing.T, fn func(*world, *deaf)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, m: newModel(), r: rand.New(rand.NewPCG(1, 49))}
		p := newProcess(w.m, "web", w.r)
		p.calm = true
		fn(w, &deaf{process: p})
		<-time.After(2 * time.Hour) // timers that nobody waits for
	})
}

// TestAnswerLost: an entry whose registration has failed since no answer came does not stand, and
// neither does one that was being written when the registration was closed.
func TestAnswerLost(t *testing.T) {
	quiet(t, func(w *world, d *deaf) {
		d.toPut = true
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
		defer cancel()
		_, err := register(ctx, d, d.clock(), w.config(), cluster.Entry{Addr: "web:1"})
		if !errors.Is(err, cluster.ErrUnavailable) {
			w.t.Errorf("without an answer: %v", err)
		}
		if e := w.m.owner("web:1"); e.Addr != "" {
			w.t.Errorf("there is %+v, of no registration", e)
		}
		d.toPut = false
		reg, err := register(w.t.Context(), d, d.clock(), w.config(), cluster.Entry{Addr: "web:1"})
		if err != nil {
			w.t.Fatal(err)
		}
		d.toPut = true
		w.m.mu.Lock()
		w.m.revoke(reg.held.lease)
		w.m.mu.Unlock()
		for w.m.owner("web:1").Addr == "" { // until it has claimed its entry anew
			<-time.After(time.Millisecond)
		}
		if err := reg.Close(w.t.Context()); err != nil {
			w.t.Errorf("close: %v", err)
		}
		if e := w.m.owner("web:1"); e.Addr != "" {
			w.t.Errorf("after Close there is %+v", e)
		}
	})
}

// TestPatience: Register, ClaimNumber and both Closes wait no longer than a TTL for etcd.
func TestPatience(t *testing.T) {
	quiet(t, func(w *world, d *deaf) {
		within := func(what string, fn func(context.Context) error) {
			begin := time.Now()
			err := fn(context.Background())
			if took := time.Since(begin); took > ttl*11/10 || !errors.Is(err, cluster.ErrUnavailable) {
				w.t.Errorf("%s after %v: %v", what, took, err)
			}
		}
		d.toGrant = true
		within("register", func(ctx context.Context) error {
			_, err := register(ctx, d, d.clock(), w.config(), cluster.Entry{Addr: "web:1"})
			return err
		})
		within("claim a number", func(ctx context.Context) error {
			_, err := claimNumber(ctx, d, d.clock(), w.config(), "a", "")
			return err
		})
		d.toGrant, d.toRevoke = false, true
		n, err := claimNumber(w.t.Context(), d, d.clock(), w.config(), "a", "")
		if err != nil {
			w.t.Fatal(err)
		}
		within("give it back", n.Close)
		reg, err := register(w.t.Context(), d, d.clock(), w.config(), cluster.Entry{Addr: "web:1"})
		if err != nil {
			w.t.Fatal(err)
		}
		within("close", reg.Close)
	})
}

// TestStood: a process that stands still past its lease, or the rest of it, does not serve before
// it has registered anew, whenever the pause begins.
func TestStood(t *testing.T) {
	for phase := time.Duration(0); phase < ttl/3; phase += ttl / 17 {
		for stands := ttl / 2; stands < ttl*3/2; stands += ttl / 29 {
			quiet(t, func(w *world, d *deaf) {
				reg, err := register(w.t.Context(), d, d.clock(), w.config(), cluster.Entry{Addr: "web:1"})
				if err != nil {
					w.t.Fatal(err)
				}
				<-time.After(ttl + phase)
				on := make(chan struct{})
				d.set(func() { d.resume = on })
				<-time.After(stands)
				w.m.mu.Lock()
				w.m.expire()
				w.m.mu.Unlock()
				stood := w.m.owner("web:1").Addr != ""
				d.set(func() { d.resume = nil })
				if err := reg.Serving(); !stood && !errors.Is(err, cluster.ErrLapsed) {
					w.t.Errorf("it stood for %v from %v after a renewal on, and serves: %v", stands, phase, err)
				}
				close(on)
				for reg.Serving() != nil || !reg.Held() {
					<-time.After(time.Millisecond)
				}
				if w.m.owner("web:1").Addr == "" {
					w.t.Error("it serves, and is not registered")
				}
				_ = reg.Close(w.t.Context())
			})
		}
	}
}

// TestRestoredEtcd: a registration ends when a copy of its etcd, with all keys and leases, answers
// in place of it.
func TestRestoredEtcd(t *testing.T) {
	quiet(t, func(w *world, d *deaf) {
		cfg := w.config()
		cfg.EtcdID = w.m.id
		reg, err := register(w.t.Context(), d, d.clock(), cfg, cluster.Entry{Addr: "web:1"})
		if err != nil {
			w.t.Fatal(err)
		}
		w.m.mu.Lock()
		w.m.id++
		w.m.mu.Unlock()
		select {
		case <-reg.Done():
		case <-time.After(2 * ttl):
		}
		if err := reg.Err(); !errors.Is(err, cluster.ErrWrongEtcd) {
			w.t.Errorf("it is over: %v", err)
		}
		_ = reg.Close(w.t.Context())
	})
}
