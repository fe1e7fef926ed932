package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/userspace-rpc/erpc/cluster"
	"github.com/userspace-rpc/erpc/erpc"
)

// Source is a cluster.Source of a service's entries in etcd.
type Source struct {
	cfg   Config
	store store
	clock clock
}

// NewSource returns a Source. The client stays the caller's. Errors: a *erpc.ConfigError.
func NewSource(client *clientv3.Client, c Config) (*Source, error) {
	if client == nil {
		return nil, &erpc.ConfigError{Field: "Client", Reason: "is nil"}
	}
	return newSource(real{client}, machine, c)
}

func newSource(s store, k clock, c Config) (*Source, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	return &Source{c, s, k}, nil
}

// maxPause bounds the time between two tries to reach etcd.
const maxPause = 2 * time.Second

// Watch is that of cluster.Source. It returns the error of ctx.
func (s *Source) Watch(
	ctx context.Context, update func(cluster.View), problem func(error),
) error {
	w := &watching{Source: s, update: update, problem: problem}
	for pause := 10 * time.Millisecond; ; {
		before := w.lists
		err := w.session(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if w.lists > before {
			pause = 10 * time.Millisecond
		}
		if err == errCompacted {
			continue // a list follows at once
		}
		w.fail(err)
		select {
		case <-s.clock.after(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
		pause = min(2*pause, maxPause)
	}
}

// watching is one Watch: what is known of each prefix.
type watching struct {
	*Source
	update  func(cluster.View)
	problem func(error)
	keys    [2]map[string]cluster.Entry
	ids     [2]header // of the etcd that the keys are of, and the revision up to which
	lists   int
	failed  error
}

// session lists both prefixes, or goes on where it was, and follows their changes until something
// fails.
func (w *watching) session(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var changes [2]<-chan batch
	prefixes := w.cfg.prefixes()
	for i, prefix := range prefixes {
		if err := w.list(ctx, i, prefix); err != nil {
			return err
		}
	}
	w.lists++
	w.failed = nil
	w.show()
	for i, prefix := range prefixes {
		changes[i] = w.store.watch(ctx, prefix, w.ids[i].revision+1)
	}
	for {
		probe := w.clock.after(w.cfg.Probe)
		var b batch
		var ok bool
		i := 0
		select {
		case b, ok = <-changes[0]:
		case b, ok = <-changes[1]:
			i = 1
		case <-probe:
			if err := w.probe(ctx); err != nil {
				return err
			}
			continue
		case <-ctx.Done():
			return ctx.Err()
		}
		switch {
		case !ok:
			return errors.New("etcd's client has closed the watch")
		case b.err != nil:
			return b.err
		}
		w.apply(i, prefixes[i], b)
	}
}

// list replaces what is known of a prefix.
func (w *watching) list(ctx context.Context, i int, prefix string) error {
	ctx, cancel := w.limit(ctx)
	defer cancel()
	pairs, h, err := w.store.list(ctx, prefix)
	if err == nil {
		err = w.cfg.checkID(h)
	}
	if err != nil {
		return err
	}
	before := w.keys[i]
	w.keys[i], w.ids[i] = map[string]cluster.Entry{}, h
	for _, p := range pairs {
		w.take(i, prefix, p, before)
	}
	return nil
}

// take takes a key that is there. One that cannot be read counts as missing.
func (w *watching) take(i int, prefix string, p pair, before map[string]cluster.Entry) {
	delete(w.keys[i], p.key)
	name := strings.TrimPrefix(p.key, prefix)
	if strings.Contains(name, "/") {
		return // of another service, whose name is longer
	}
	e, err := cluster.Decode([]byte(p.value))
	switch {
	case err != nil:
	case e.Addr != name && e.Instance != "":
		err = fmt.Errorf("%w: it has the address %s", cluster.ErrEntry, e.Addr)
	case w.cfg.Cluster != "" && e.Cluster != w.cfg.Cluster && e.Instance != "":
		err = fmt.Errorf("%w: %q, not %q", cluster.ErrOtherCluster, e.Cluster, w.cfg.Cluster)
	default:
		w.keys[i][p.key] = e
		return
	}
	if _, known := before[p.key]; known || before == nil || p.revision > w.ids[i].revision {
		w.problem(fmt.Errorf("etcd: key %s: %w", p.key, err))
	}
}

// apply takes changes.
func (w *watching) apply(i int, prefix string, b batch) {
	for _, p := range b.changes {
		if p.revision == 0 {
			delete(w.keys[i], p.key)
		} else {
			w.take(i, prefix, p, nil)
		}
	}
	w.ids[i].revision = max(w.ids[i].revision, b.revision)
	if len(b.changes) > 0 {
		w.show()
	}
}

// probe asks etcd whether it is there, and the one that the view is of.
func (w *watching) probe(ctx context.Context) error {
	ctx, cancel := w.limit(ctx)
	defer cancel()
	_, h, err := w.store.get(ctx, w.cfg.Service+"/")
	switch {
	case err != nil:
		return err
	case h.id != w.ids[0].id || h.revision < max(w.ids[0].revision, w.ids[1].revision):
		return errCompacted // another etcd, or one that was restored
	}
	return nil
}

// limit gives a request to etcd as long as a probe is apart from the next.
func (w *watching) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return w.clock.limit(ctx, min(w.cfg.Probe, 5*time.Second))
}

// show tells the view.
func (w *watching) show() {
	var list []cluster.Entry
	for _, keys := range w.keys {
		list = append(list, slices.Collect(maps.Values(keys))...)
	}
	w.update(cluster.NewView(list, max(w.ids[0].revision, w.ids[1].revision), w.failed))
}

// fail tells that etcd cannot be asked, once.
func (w *watching) fail(err error) {
	if !errors.Is(err, cluster.ErrWrongEtcd) {
		err = named(err)
	}
	first := w.failed == nil
	if w.failed = err; first {
		w.show()
	}
}
