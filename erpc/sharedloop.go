package erpc

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/erpc/internal/engine"
	"github.com/userspace-rpc/erpc/transport"
)

const (
	// loopLinger is how long a shared Loop without Clients stays for the next one: long enough for
	// programs that dial again and again, and for the repetitions of a Disconnect. Tests that look
	// for goroutines left behind wait a little longer than that.
	loopLinger = 200 * time.Millisecond
	// loopCrowd is from how many Clients on each Loop on there are more Loops than processors.
	loopCrowd = 1024
	// maxUnused is how many Loops wait for Clients at a time. Programs that make a tls.Config for each
	// Client leave one behind each time.
	maxUnused = 4
)

// sharedLoops are the Loops of the Clients that Dial makes. Clients share one if their transports
// are of the same Kind and their configurations equal. So a Client costs no socket, no thread and
// no memory of its own, and what there is of keys between two hosts serves all Clients there. There
// are as many Loops of a sort as goroutines can run at a time, so that Clients have all processors,
// and a callback that takes long keeps only some of them waiting: those that were on its Loop
// before. New ones get another, as long as there is one.
type sharedLoops struct {
	linger time.Duration
	mu     sync.Mutex
	loops  map[loopSort][]*sharedLoop
	unused []*sharedLoop // those that wait for Clients, the first one first
}

// loopSort is the part of a Client's configuration that is compared by ==. Clients share a Loop if
// it and the rest are equal.
type loopSort struct {
	kind    any // of their transports
	tls     *tls.Config
	keyring *Keyring
	logger  *slog.Logger
}

// sharedLoop is a Loop and how many Clients use it.
type sharedLoop struct {
	among *sharedLoops
	sort  loopSort
	cfg   Config
	make  sync.Once
	loop  atomic.Pointer[Loop] // nil until it is made, or if that failed
	err   error                // why it failed; read after make

	// Under the mutex of among.
	clients int
	end     *time.Timer // runs while there are none; nil at first
}

// shared are the Loops of the process.
var shared = sharedLoops{linger: loopLinger, loops: map[loopSort][]*sharedLoop{}}

// sortOf returns the sort of Loop that a Client of a transport and a configuration can share. It is
// false if it must have a Loop of its own: for callbacks of its own, for limits that are those of a
// Loop, or since nothing else can take the transport's place.
func sortOf(tr transport.Transport, c *Config) (loopSort, bool) {
	s := loopSort{tls: c.TLS, keyring: c.Keyring, logger: c.Logger}
	if c.OnSession != nil || c.Authorize != nil || c.AuthorizeRequest != nil || c.KeyLog != nil ||
		c.Congestion.Algorithm == CCCustom || !reflect.ValueOf(&c.Simulation).Elem().IsZero() ||
		c.MaxSessions != 0 || c.MemoryLimit != 0 || c.LockThread || c.Wait == WaitSpin {
		return s, false
	}
	if _, ok := tr.(transport.Sharable); !ok {
		return s, false
	}
	s.kind = tr.Kind(tr)
	return s, s.kind != nil
}

// rest returns the part of a configuration that is compared field by field.
func rest(c *Config) Config {
	r := *c
	r.TLS, r.Keyring, r.Logger = nil, nil, nil
	return r
}

// dial makes a Client on a Loop of a sort. If there is none, the transport becomes that of a new
// one; else it is closed.
func (p *sharedLoops) dial(
	ctx context.Context, own *claim, addr string, sort loopSort, cfg Config,
) (*Client, error) {
	s := p.join(sort, &cfg)
	used := false
	s.make.Do(func() {
		used = true
		l, err := newLoop(detach(own), cfg)
		if s.err = err; err == nil {
			s.loop.Store(l)
		} else {
			p.remove(s)
		}
	})
	l, err := s.loop.Load(), s.err
	if !used {
		err = errors.Join(err, own.tr.Close())
	}
	var c *Client
	if err == nil {
		c, err = l.Dial(ctx, addr)
	}
	if err != nil {
		s.leave(own, ctx.Err() == nil && !errors.Is(err, engine.ErrPortClosed))
		return nil, err
	}
	c.shared, c.given = s, own
	return c, nil
}

// detach returns a claim to what is behind a transport. Who gave that to Dial may close it when his
// Client is closed, and the Loop goes on for others.
func detach(own *claim) *claim {
	d, _ := take(own.tr.(transport.Sharable).Detach()) // no error: nobody else has it
	return d
}

// join finds a Loop, and counts a Client more there. That is the one with the fewest Clients of
// those that go on; if callbacks keep all, the one that went on last. The Loop may still have to be
// made.
func (p *sharedLoops) join(sort loopSort, cfg *Config) *sharedLoop {
	p.mu.Lock()
	defer p.mu.Unlock()
	var least *sharedLoop
	var stuck time.Duration // for how long least is
	n, want := 0, rest(cfg)
	p.loops[sort] = slices.DeleteFunc(p.loops[sort], (*sharedLoop).ended)
	for _, s := range p.loops[sort] {
		if !reflect.DeepEqual(s.cfg, want) {
			continue
		}
		n++
		d := s.stuckFor()
		if least == nil || d < stuck || d == stuck && s.clients < least.clients {
			least, stuck = s, d
		}
	}
	if least == nil || least.clients > 0 && n < runtime.GOMAXPROCS(0) || least.clients >= loopCrowd {
		want.PSK = clonePSK(want.PSK)
		least = &sharedLoop{among: p, sort: sort, cfg: want}
		p.loops[sort] = append(p.loops[sort], least)
	}
	if least.clients++; least.clients == 1 {
		p.use(least)
	}
	return least
}

// ended reports whether the Loop has been made and has ended: its transport failed.
func (s *sharedLoop) ended() bool {
	l := s.loop.Load()
	return l != nil && l.closed.Load()
}

// stuckFor returns for how long a callback of a Client has kept the Loop, 0 if that is not long.
func (s *sharedLoop) stuckFor() time.Duration {
	if l := s.loop.Load(); l != nil && s.clients > 0 {
		return l.rpc.stuckFor()
	}
	return 0
}

// leave counts a Client less. The Loop ends some time after the last one, or at once if that one
// could not be dialled, or if many Loops wait. Given is the transport that the Client was given,
// which is free now. Where nobody listens a dial has not failed for good: the Loop knows that, and
// hosts say it seldom. Nor has one whose context ended: its server may be about to open the
// session, and is told that nobody wants it.
func (s *sharedLoop) leave(given *claim, failed bool) {
	given.drop()
	p := s.among
	p.mu.Lock()
	var ends *sharedLoop
	if s.clients--; s.clients == 0 && s.loop.Load() != nil {
		if ends = s; !failed {
			ends = p.wait(s)
		}
	}
	p.mu.Unlock()
	if ends != nil {
		ends.expire()
	}
}

// wait has a Loop wait for Clients. It returns one that is to end instead, if there are many.
func (p *sharedLoops) wait(s *sharedLoop) (ends *sharedLoop) {
	if s.end == nil {
		s.end = time.AfterFunc(p.linger, s.expire)
	} else {
		s.end.Reset(p.linger)
	}
	if p.unused = append(p.unused, s); len(p.unused) > maxUnused {
		ends = p.unused[0]
	}
	return ends
}

// expire ends the Loop if it has no Clients.
func (s *sharedLoop) expire() {
	s.among.mu.Lock()
	unused := s.clients == 0
	if unused {
		s.among.forget(s)
	}
	s.among.mu.Unlock()
	if unused {
		_ = s.loop.Load().Close() // nobody is left to be told
	}
}

// remove takes a Loop out that could not be made.
func (p *sharedLoops) remove(s *sharedLoop) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(s)
}

// use notes that a Loop does not wait any more, if it did, with the mutex held.
func (p *sharedLoops) use(s *sharedLoop) {
	if i := slices.Index(p.unused, s); i >= 0 {
		p.unused = slices.Delete(p.unused, i, i+1)
	}
	if s.end != nil {
		s.end.Stop()
	}
}

// forget takes a Loop out, with the mutex held.
func (p *sharedLoops) forget(s *sharedLoop) {
	p.use(s)
	list := p.loops[s.sort]
	if i := slices.Index(list, s); i >= 0 {
		list = slices.Delete(list, i, i+1)
	}
	if p.loops[s.sort] = list; len(list) == 0 {
		delete(p.loops, s.sort)
	}
}
