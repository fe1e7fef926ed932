package etcd

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// model is an etcd in virtual time: keys, revisions, leases, watches, compaction.
type model struct {
	mu        sync.Mutex
	id        uint64
	revision  int64
	compacted int64
	keys      map[string]modelKey
	leases    map[int64]*modelLease
	lastLease int64
	refused   int    // writes, since a key had another revision
	log       []pair // changes, in the order of their revisions; deleted keys have a value of ""
	down      bool
	replaced  time.Time     // when it lost all that it knew
	lives     int           // how often that was
	moved     chan struct{} // closed at each change of the model or of a link
}

type modelKey struct {
	value    string
	revision int64
	lease    int64
}

type modelLease struct {
	ttl  time.Duration
	ends time.Time
}

func newModel() *model {
	return &model{id: 1, revision: 1, keys: map[string]modelKey{}, leases: map[int64]*modelLease{},
		moved: make(chan struct{})}
}

// move wakes those that wait. It holds mu, as the functions below do.
func (m *model) move() {
	close(m.moved)
	m.moved = make(chan struct{})
}

// expire ends leases in time. A real etcd is up to half a second late; the caller's period is that.
func (m *model) expire() {
	for id, l := range m.leases {
		if !m.down && time.Now().After(l.ends) {
			m.revoke(id)
		}
	}
}

func (m *model) revoke(lease int64) {
	delete(m.leases, lease)
	changed := false
	for key, k := range m.keys {
		if k.lease == lease {
			if !changed {
				m.revision++
				changed = true
			}
			delete(m.keys, key)
			m.log = append(m.log, pair{key, "", m.revision})
		}
	}
	m.move()
}

// stop takes etcd away, or brings it back: then its leases last for their TTL from now on.
func (m *model) stop(down bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = down
	if !down {
		for _, l := range m.leases {
			l.ends = time.Now().Add(l.ttl)
		}
	}
	m.move()
}

// compact forgets changes.
func (m *model) compact() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.compacted, m.log = m.revision, nil
	m.move()
}

// replace makes it an etcd that is empty and young: another one, or the same one without its data.
func (m *model) replace(other bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lives++
	if other {
		m.id++
	}
	m.replaced = time.Now()
	m.revision, m.compacted, m.log = 1, 0, nil
	m.keys, m.leases = map[string]modelKey{}, map[int64]*modelLease{}
	m.move()
}

// process is a machine with one process: a clock that drifts, and a network to etcd.
type process struct {
	m    *model
	name string
	rate float64 // of its clock

	mu      sync.Mutex
	random  *rand.Rand
	resume  chan struct{} // while it is stopped: closed when it goes on
	cut     bool
	dead    bool
	calm    bool          // the network is fast
	late    time.Duration // how long answers travel besides
	flying  int           // requests under way
	asked   time.Time     // when etcd did something for it last
	resumed time.Time
	stood   time.Duration // how long it stood before that
}

func newProcess(m *model, name string, r *rand.Rand) *process {
	p := &process{m: m, name: name, random: rand.New(rand.NewPCG(r.Uint64(), 1))}
	p.rate = 0.96 + 0.08*r.Float64() // a Drift of a tenth covers two of them
	return p
}

// gate holds a goroutine while the process is stopped.
func (p *process) gate() {
	for {
		p.mu.Lock()
		ch := p.resume
		p.mu.Unlock()
		if ch == nil {
			return
		}
		<-ch
	}
}

var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // of package synctest

// clock is the process's.
func (p *process) clock() clock {
	return clock{
		now: func() time.Duration {
			return time.Duration(float64(time.Since(epoch)) * p.rate)
		},
		after: func(d time.Duration) <-chan time.Time {
			ch := make(chan time.Time, 1)
			go func() {
				now := <-time.After(time.Duration(float64(d) / p.rate))
				p.gate()
				ch <- now
			}()
			return ch
		},
	}
}

// set changes the process's state.
func (p *process) set(change func()) {
	p.mu.Lock()
	change()
	p.mu.Unlock()
	p.m.mu.Lock()
	p.m.move()
	p.m.mu.Unlock()
}

// stopFor stands still for a while, from when a request is under way on. The first thing that it
// does afterwards is then.
func (p *process) stopFor(d time.Duration, then func()) {
	for range 5000 {
		p.mu.Lock()
		flying := p.flying
		p.mu.Unlock()
		if flying > 0 {
			break
		}
		<-time.After(time.Millisecond)
	}
	on := make(chan struct{})
	already := false
	p.set(func() {
		if already = p.resume != nil; !already {
			p.resume = on
		}
	})
	if already {
		return
	}
	<-time.After(d)
	p.set(func() { p.resumed, p.stood, p.resume = time.Now(), d, nil })
	then()
	close(on)
}

// reaches reports whether etcd can be asked. The channel is closed when that changes.
func (p *process) reaches() (bool, <-chan struct{}) {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.cut && !p.dead && !p.m.down, p.m.moved
}

var errNet = errors.New("connection lost")

// travel takes some milliseconds. A packet that does not come through fails the request, at once or
// when its context ends.
func (p *process) travel(ctx context.Context) error {
	p.mu.Lock()
	d := time.Duration(p.random.IntN(20)) * time.Millisecond
	if p.random.IntN(8) == 0 && !p.calm {
		d *= 100
	}
	hangs := p.random.IntN(2) == 0
	p.mu.Unlock()
	<-time.After(d)
	switch ok, _ := p.reaches(); {
	case ok:
		return ctx.Err()
	case hangs:
		<-ctx.Done()
		return ctx.Err()
	}
	return errNet
}

// ask does something in etcd.
func (p *process) ask(ctx context.Context, fn func(*model) error) error {
	p.gate()
	p.fly(1)
	defer p.fly(-1)
	if err := p.travel(ctx); err != nil {
		p.gate()
		return err
	}
	p.m.mu.Lock()
	p.m.expire()
	err := fn(p.m)
	p.m.mu.Unlock()
	p.mu.Lock()
	p.asked = time.Now()
	p.mu.Unlock()
	<-time.After(p.late)
	if lost := p.travel(ctx); lost != nil {
		err = lost // it is done all the same
	}
	p.gate()
	return err
}

func (p *process) fly(n int) {
	p.mu.Lock()
	p.flying += n
	p.mu.Unlock()
}

func (p *process) grant(
	ctx context.Context, ttl time.Duration,
) (lease int64, got time.Duration, err error) {
	err = p.ask(ctx, func(m *model) error {
		m.lastLease++
		lease = m.lastLease
		m.leases[lease] = &modelLease{ttl, time.Now().Add(ttl)}
		return nil
	})
	return lease, ttl, err
}

func (p *process) renew(ctx context.Context, lease int64) (ttl time.Duration, err error) {
	err = p.ask(ctx, func(m *model) error {
		l := m.leases[lease]
		if l == nil {
			return errNoLease
		}
		l.ends = time.Now().Add(l.ttl)
		ttl = l.ttl
		return nil
	})
	return ttl, err
}

func (p *process) revoke(ctx context.Context, lease int64) error {
	return p.ask(ctx, func(m *model) error { m.revoke(lease); return nil })
}

func (p *process) get(ctx context.Context, keys ...string) (list []pair, h header, err error) {
	err = p.ask(ctx, func(m *model) error {
		h = header{m.id, m.revision}
		for _, key := range keys {
			k := m.keys[key]
			list = append(list, pair{key, k.value, k.revision})
		}
		return nil
	})
	return list, h, err
}

func (p *process) put(
	ctx context.Context, lease int64, pairs ...pair,
) (ok bool, h header, err error) {
	err = p.ask(ctx, func(m *model) error {
		h = header{m.id, m.revision}
		for _, q := range pairs {
			if m.keys[q.key].revision != q.revision {
				m.refused++
				return nil
			}
		}
		if m.leases[lease] == nil {
			return errNoLease
		}
		m.revision++
		ok, h.revision = true, m.revision
		for _, q := range pairs {
			switch {
			case q.value != "":
				m.keys[q.key] = modelKey{q.value, m.revision, lease}
			case q.revision != 0:
				delete(m.keys, q.key)
			default:
				continue
			}
			m.log = append(m.log, pair{q.key, q.value, m.revision})
		}
		m.move()
		return nil
	})
	return ok, h, err
}

func (p *process) list(ctx context.Context, prefix string) (list []pair, h header, err error) {
	err = p.ask(ctx, func(m *model) error {
		h = header{m.id, m.revision}
		for key, k := range m.keys {
			if strings.HasPrefix(key, prefix) {
				list = append(list, pair{key, k.value, k.revision})
			}
		}
		slices.SortFunc(list, func(a, b pair) int { return strings.Compare(a.key, b.key) })
		return nil
	})
	return list, h, err
}

func (p *process) newest(
	ctx context.Context, prefix string,
) (n int64, last pair, h header, err error) {
	list, h, err := p.list(ctx, prefix)
	for _, q := range list {
		if q.revision > last.revision {
			last = q
		}
	}
	return int64(len(list)), last, h, err
}

func (p *process) lost(ctx context.Context) <-chan struct{} {
	to := make(chan struct{})
	p.m.mu.Lock()
	lives := p.m.lives
	p.m.mu.Unlock()
	go func() {
		for {
			ok, moved := p.reaches()
			p.m.mu.Lock()
			ok = ok && p.m.lives == lives
			p.m.mu.Unlock()
			if !ok {
				p.gate()
				close(to)
				return
			}
			select {
			case <-moved:
			case <-ctx.Done():
				return
			}
		}
	}()
	return to
}

// watch sends changes as long as etcd can be reached. Over an absence it fails, or goes on where it
// was, as etcd's client does.
func (p *process) watch(ctx context.Context, prefix string, from int64) <-chan batch {
	to := make(chan batch)
	go func() {
		defer close(to)
		for {
			ok, moved := p.reaches()
			p.gate()
			b := batch{}
			if ok {
				b = p.m.since(prefix, &from)
			} else if p.random64()%8 == 0 {
				b.err = errNet
			}
			if b.err != nil || len(b.changes) > 0 {
				p.gate()
				select {
				case to <- b:
				case <-ctx.Done():
					return
				}
				if b.err != nil {
					return
				}
				continue
			}
			select {
			case <-moved:
			case <-ctx.Done():
				return
			}
		}
	}()
	return to
}

func (p *process) random64() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.random.Uint64()
}

// since returns what has changed from a revision on, and moves that.
func (m *model) since(prefix string, from *int64) (b batch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if *from <= m.compacted {
		return batch{err: errCompacted}
	}
	b.revision = m.revision
	for _, q := range m.log {
		if q.revision >= *from && strings.HasPrefix(q.key, prefix) {
			if q.value == "" {
				q.revision = 0
			}
			b.changes = append(b.changes, q)
		}
	}
	*from = max(*from, m.revision+1)
	return b
}
