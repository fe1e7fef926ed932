package etcd

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/userspace-rpc/erpc/cluster"
	"github.com/userspace-rpc/erpc/erpc"
)

// Registration is a server's hold on its entry. Its methods are safe from any goroutine.
type Registration struct {
	cfg    Config
	store  store
	clock  clock
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed when both goroutines have ended
	wanted int           // the number that the entry had at first; 0: any

	// Read for each request.
	beatAt  atomic.Int64 // when the process ran last, by clock
	from    atomic.Int64 // when an earlier process at the address cannot believe in its lease any more
	until   atomic.Int64 // when the lease ends, by clock less the drift
	ttl     atomic.Int64 // what etcd gave
	stopped atomic.Bool  // the process stood still past its lease, and etcd has not answered since

	mu    sync.Mutex
	entry cluster.Entry
	load  float64
	held  tenure
	err   error // why it is over

	renewing chan struct{} // one waits: the entry has changed
}

// tenure names the lease and the keys that a Registration has in etcd.
type tenure struct {
	lease  int64
	key    string
	number string // the key of its number's claim; "" for none
	value  string // of the entry
	at     int64  // the entry's revision
	other  bool   // it was another process's before
}

// Register announces a server, and returns when its entry stands in etcd. From then on it is held
// until Close. The client stays the caller's. Entry.Cluster and Instance are set by it, Number too
// if it is 0; an entry without a Name gets none, and nobody may take it over. Errors: a
// *erpc.ConfigError, cluster.ErrEntry, ErrAddressTaken, ErrWrongEtcd, ErrAuth, ErrTLS,
// ErrUnavailable, each at once, or if etcd does not answer within a TTL: it does not try again.
func Register(
	ctx context.Context, client *clientv3.Client, c Config, e cluster.Entry,
) (*Registration, error) {
	if client == nil {
		return nil, &erpc.ConfigError{Field: "Client", Reason: "is nil"}
	}
	return register(ctx, real{client}, machine, c, e)
}

func register(
	ctx context.Context, s store, k clock, c Config, e cluster.Entry,
) (*Registration, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	e.Cluster, e.Instance = c.Cluster, newInstance()
	if _, err := e.Encode(); err != nil {
		return nil, err
	}
	r := &Registration{cfg: c, store: s, clock: k, entry: e, load: e.Load, wanted: e.Number,
		done: make(chan struct{}), renewing: make(chan struct{}, 1)}
	ctx, cancel := k.limit(ctx, c.TTL)
	defer cancel()
	if err := r.claim(ctx); err != nil {
		return nil, err
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	var both sync.WaitGroup
	both.Go(r.beat)
	both.Go(r.keep)
	go func() { both.Wait(); close(r.done) }()
	return r, nil
}

// newInstance draws the id of a process.
func newInstance() string {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// Entry returns the entry as it stands in etcd, or stood there last.
func (r *Registration) Entry() cluster.Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.entry
}

// SetLoad tells clients the share of its capacity that the server uses, with the next renewal.
func (r *Registration) SetLoad(load float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.load = load
}

// Serving says whether the server may answer requests: nil, also after Close; cluster.ErrLapsed
// after the process stood still past its lease, until it has registered anew; or why the
// registration is over otherwise. It reads a clock, and allocates nothing.
func (r *Registration) Serving() error {
	select {
	case <-r.ctx.Done():
		if err := r.Err(); err != cluster.ErrClosed {
			return err
		}
		return nil // Server.Shutdown follows
	default:
	}
	if r.stopped.Load() || r.still() {
		return cluster.ErrLapsed
	}
	return nil
}

// still reports whether the process has stood still past its lease: for as long as one lasts, or
// for half as long, and its lease ended meanwhile. While etcd answers a lease lasts for two thirds
// of that at least when a pause begins, so it does not end in a shorter one.
func (r *Registration) still() bool {
	now, beat, ttl, end := int64(r.clock.now()), r.beatAt.Load(), r.ttl.Load(), r.until.Load()
	return now-beat >= ttl || now-beat >= ttl/2 && beat < end && end <= now
}

// Held reports whether the lease certainly lasts, if clocks drift by Config.Drift at most: no other
// registration of the address is held then. After a take-over from an earlier process of the name
// it is false for a TTL, in which that one may not know it yet; all must have the same TTL and
// Drift.
func (r *Registration) Held() bool {
	now := int64(r.clock.now())
	return r.from.Load() <= now && now < r.until.Load()
}

// Guard returns a handler that refuses requests while the process may not serve: with
// CodeUnavailable and details that cluster.Refused knows, before fn runs.
func (r *Registration) Guard(fn erpc.Func) erpc.Func {
	return func(ctx context.Context, request []byte) ([]byte, error) {
		if err := r.Serving(); err != nil {
			return nil, cluster.Refusal(err)
		}
		return fn(ctx, request)
	}
}

// Done is closed when the registration is over: by Close, or for the reason that Err returns.
func (r *Registration) Done() <-chan struct{} { return r.done }

// Err returns why the registration is over: nil, cluster.ErrClosed, ErrReplaced or ErrWrongEtcd.
func (r *Registration) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Close takes the entry out of etcd at once, and returns when it is gone or ctx ends, or after a
// TTL. Then it goes with its lease. Call it before Server.Shutdown. Errors: those of etcd.
func (r *Registration) Close(ctx context.Context) error {
	r.end(cluster.ErrClosed)
	ctx, cancel := r.clock.limit(ctx, time.Duration(r.ttl.Load()))
	defer cancel()
	select {
	case <-r.done:
	case <-ctx.Done():
	}
	r.until.Store(0)
	return r.release(ctx)
}

// release gives the lease back.
func (r *Registration) release(ctx context.Context) error {
	r.mu.Lock()
	lease := r.held.lease
	r.held.lease = 0
	r.mu.Unlock()
	if lease == 0 {
		return nil
	}
	return named(r.store.revoke(ctx, lease))
}

// end ends the registration for a reason; the first one counts.
func (r *Registration) end(err error) {
	r.mu.Lock()
	if r.err == nil {
		r.err = err
	}
	r.mu.Unlock()
	r.cancel()
}

// beat notes that the process runs.
func (r *Registration) beat() {
	for {
		if r.still() {
			r.stopped.Store(true)
			select {
			case r.renewing <- struct{}{}:
			default:
			}
		}
		r.beatAt.Store(int64(r.clock.now()))
		select {
		case <-r.clock.after(time.Duration(r.ttl.Load()) / 8):
		case <-r.ctx.Done():
			return
		}
	}
}

// keep renews the lease until the registration is over.
func (r *Registration) keep() {
	failed := false
	for {
		wait := time.Duration(r.ttl.Load()) / 3
		if failed {
			wait /= 2
		}
		select {
		case <-r.clock.after(wait):
		case <-r.renewing:
		case <-r.ctx.Done():
			return
		}
		ctx, cancel := r.limit()
		err := r.renew(ctx)
		cancel()
		switch {
		case r.ctx.Err() != nil:
			return
		case errors.Is(err, cluster.ErrReplaced), errors.Is(err, cluster.ErrWrongEtcd):
			r.until.Store(0)
			r.end(err)
			return
		case err != nil:
			r.cfg.OnProblem(err)
		}
		failed = err != nil
	}
}

// limit returns a context for a request: it ends when another try is due.
func (r *Registration) limit() (context.Context, context.CancelFunc) {
	return r.clock.limit(r.ctx, time.Duration(r.ttl.Load())/3)
}

// renew renews the lease, or claims the entry anew if there is none any more, and looks whether the
// entry still stands.
func (r *Registration) renew(ctx context.Context) error {
	r.mu.Lock()
	held := r.held
	r.mu.Unlock()
	sent := r.clock.now()
	ttl, err := r.store.renew(ctx, held.lease)
	switch {
	case err == errNoLease:
		return r.claim(ctx)
	case err != nil:
		return named(err)
	}
	list, h, err := r.store.get(ctx, held.key)
	if err != nil {
		return named(err)
	}
	if err := r.cfg.checkID(h); err != nil {
		return err
	}
	p := list[0]
	if p.value != held.value {
		if err := r.mayTake(p); err != nil {
			return err
		}
		return r.claim(ctx) // somebody has deleted it, or written over it
	}
	r.mu.Lock()
	held.at = p.revision
	r.held = held
	r.mu.Unlock()
	r.lasts(sent, ttl)
	return r.tellLoad(ctx)
}

// lasts notes that etcd has given the lease a time to live at some time after sent.
func (r *Registration) lasts(sent, ttl time.Duration) {
	r.ttl.Store(int64(ttl))
	r.until.Store(int64(sent + ttl - r.cfg.Drift))
	if r.clock.now() < sent+ttl { // no pause since
		r.beatAt.Store(int64(r.clock.now()))
		r.stopped.Store(false)
	}
}

// tellLoad writes the entry anew if the load has changed by a twentieth.
func (r *Registration) tellLoad(ctx context.Context) error {
	r.mu.Lock()
	e, held := r.entry, r.held
	change := r.load - e.Load
	e.Load = r.load
	r.mu.Unlock()
	if change > -0.05 && change < 0.05 {
		return nil
	}
	value, err := e.Encode()
	if err != nil {
		return err
	}
	p := pair{held.key, string(value), held.at}
	ok, h, err := r.store.put(ctx, held.lease, p)
	if err != nil || !ok {
		return named(err) // if it was not ok the next renewal finds out why
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entry, r.held.value, r.held.at = e, p.value, h.revision
	return nil
}
