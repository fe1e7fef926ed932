package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/userspace-rpc/erpc/erpc"
)

// Config configures a Resolver. The zero value prefers all servers, and has sessions with all.
type Config struct {
	// Zone is the client's. Empty means that it prefers no zone.
	Zone string
	// Transport says which address of a server is called. Default UDP.
	Transport string
	// Subset is how many servers of its zone the client has sessions with, and how many spares of
	// other zones. 0 means all.
	Subset int
	// Client is the client's number among the clients of its zone, from 0, as the ordinal of a
	// StatefulSet that is all in one zone: subsets are even if a zone's clients have the numbers from
	// 0 on. Every other number, as where ordinals go over two zones in turn, makes them uneven.
	Client uint64
	// ClientFrom returns the number in place of Client, as etcd.Number's Value: it is asked with each
	// view.
	ClientFrom func() uint64
	// Trusts says which identities servers of the service may have, as those with the service's
	// domain at their end. Entries with another one do not count (ErrIdentity): whoever can write
	// entries chooses what stands in them. It must not block. nil means that all do.
	Trusts func(identity string) bool
	// OnProblem is told of entries that do not count and why, and of a source that fails: once for
	// each time. It must not block. nil means nobody is.
	OnProblem func(error)
}

// Choice has the servers that a client has sessions with, chosen by a Resolver from a view. Each
// has an address for the transport.
type Choice struct {
	Preferred []Entry // of the client's zone, or of all if that has none
	Spares    []Entry // of other zones
}

// Choose returns the servers of a view that a client with a configuration has sessions with. It
// passes over servers that drain, do not serve the transport, or are not trusted.
func Choose(v View, c Config) (to Choice) {
	v, _ = c.trusted(v)
	transport := c.Transport
	if transport == "" {
		transport = UDP
	}
	for _, e := range v.Entries {
		switch {
		case e.Draining || e.At(transport) == "":
		case c.Zone == "" || e.Zone == c.Zone:
			to.Preferred = append(to.Preferred, e)
		default:
			to.Spares = append(to.Spares, e)
		}
	}
	if len(to.Preferred) == 0 {
		to.Preferred, to.Spares = to.Spares, nil
	}
	if c.ClientFrom != nil {
		c.Client = c.ClientFrom()
	}
	if c.Subset > 0 {
		to.Preferred = Subset(to.Preferred, c.Client, c.Subset)
		to.Spares = Subset(to.Spares, c.Client, c.Subset)
	}
	return to
}

// Resolver follows a source. All methods are safe from any goroutine, and none waits for the source
// but those that say so.
type Resolver struct {
	cfg    Config
	cancel context.CancelFunc
	done   chan struct{} // closed when the watch has ended

	mu      sync.Mutex
	view    View    // without those that are not trusted
	bad     []Entry // these
	choice  Choice  // that of the last view which had servers
	changed chan struct{}
	err     error // why the watch has ended
}

// NewResolver begins to follow a source. It does not wait: Ready does. Errors: a
// *erpc.ConfigError.
func NewResolver(source Source, c Config) (*Resolver, error) {
	switch {
	case source == nil:
		return nil, &erpc.ConfigError{Field: "Source", Reason: "is nil"}
	case c.Subset < 0:
		return nil, &erpc.ConfigError{Field: "Subset", Reason: "is negative"}
	}
	if c.Transport == "" {
		c.Transport = UDP
	}
	if c.OnProblem == nil {
		c.OnProblem = func(error) {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &Resolver{cfg: c, cancel: cancel, done: make(chan struct{}), changed: make(chan struct{})}
	go func() {
		err := source.Watch(ctx, r.take, c.OnProblem)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.err = err; ctx.Err() != nil {
			r.err = ErrClosed
		}
		close(r.done)
	}()
	return r, nil
}

// take follows a view. One without servers leaves the choice as it was: whether those answer is
// known by the sessions to them.
func (r *Resolver) take(v View) {
	v, bad := r.cfg.trusted(v)
	c := Choose(v, r.cfg)
	r.mu.Lock()
	if v.Err != nil && r.view.Err == nil {
		defer r.cfg.OnProblem(v.Err)
	}
	for _, e := range bad {
		if !slices.ContainsFunc(r.bad, e.is) {
			defer r.cfg.OnProblem(fmt.Errorf("%w: %s has %q", ErrIdentity, e.Addr, e.identity()))
		}
	}
	r.view, r.bad = v, bad
	if len(c.Preferred) > 0 {
		r.choice = c
	}
	close(r.changed)
	r.changed = make(chan struct{})
	r.mu.Unlock()
}

// View returns the last view.
func (r *Resolver) View() View {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.view
}

// Choice returns the servers to have sessions with: those of the last view that had any.
func (r *Resolver) Choice() Choice {
	_, c, _ := r.now()
	return c
}

// now returns the view, the choice, and a channel that is closed when there is another view.
func (r *Resolver) now() (View, Choice, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.view, r.choice, r.changed
}

// Follow calls fn after each view, the last one if there were several, with the view and the choice
// as it is then, one call at a time, until ctx or the Resolver ends. It returns the reason. A
// choice is empty until a view has had servers.
func (r *Resolver) Follow(ctx context.Context, fn func(View, Choice)) error {
	for first := true; ; first = false {
		v, c, changed := r.now()
		if !first || len(c.Preferred) > 0 || v.Err != nil {
			fn(v, c)
		}
		select {
		case <-changed:
		case <-r.done:
			return r.ended()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Ready waits until servers are known, or ctx ends. Errors: ErrNoServers with the context's error
// and why the source knows none, ErrClosed, and lasting ones of the source.
func (r *Resolver) Ready(ctx context.Context) error {
	for {
		_, c, changed := r.now()
		if len(c.Preferred) > 0 {
			return nil
		}
		select {
		case <-changed:
		case <-r.done:
			return r.ended()
		case <-ctx.Done():
			err := fmt.Errorf("%w: %w", ErrNoServers, ctx.Err())
			if v := r.View(); v.Err != nil {
				err = fmt.Errorf("%w: %w", err, v.Err)
			}
			return err
		}
	}
}

// ended returns why the watch has ended.
func (r *Resolver) ended() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Close ends the watch and what follows the Resolver. The Pools stay with the servers that they
// have.
func (r *Resolver) Close() error {
	r.cancel()
	<-r.done
	return nil
}

// Dial opens a Client to the first of the servers that answers, preferred ones first; it waits
// until some are known. A Client stays with its server: a Pool follows the Resolver. Errors: those
// of Ready, or of each server.
func (r *Resolver) Dial(ctx context.Context, loop *erpc.Loop) (*erpc.Client, error) {
	if err := r.Ready(ctx); err != nil {
		return nil, err
	}
	var failed error
	c := r.Choice()
	for _, list := range [][]Entry{c.Preferred, c.Spares} {
		for _, e := range list {
			client, err := loop.Dial(ctx, e.At(r.cfg.Transport))
			if err == nil {
				return client, nil
			}
			failed = errors.Join(failed, err)
		}
	}
	return nil, failed
}
