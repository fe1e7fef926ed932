package durable

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/userspace-rpc/erpc/index"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// text lists the keys and values of a map.
func text[V any](m tree[V]) string {
	var b strings.Builder
	for key, value := range m.Ascend(nil) {
		fmt.Fprintf(&b, "%s=%v ", key, value)
	}
	return b.String()
}

// life records the writes of a map, and which of them were acknowledged.
type life struct {
	t      *testing.T
	r      *rand.Rand // of the writes, which are the same each time
	lost   *rand.Rand // of power failures
	cfg    Config
	states []string // after each record
	acked  int      // records
	keys   int
	writes int // each time
	n      uint64
}

// open opens a folder.
func (l *life) open(d disk) (*Store[uint64], *index.Map, error) {
	m := index.NewMap()
	s := numbers(m)
	return s, m, s.open(d, l.cfg)
}

// write does a random write, which a small model does as well.
func (l *life) write(s *Store[uint64], m *index.Map) error {
	key := fmt.Appendf(nil, "key %d", l.r.IntN(l.keys))
	was := text(m)
	l.n++
	var err error
	switch l.r.IntN(4) {
	case 0:
		_, _, err = s.Delete(key)
	case 1:
		_, _, err = s.PutIfAbsent(key, l.n)
	default:
		_, _, err = s.Put(key, l.n)
	}
	if now := text(m); now != was {
		l.states = append(l.states, now)
	}
	if err == nil {
		l.acked = len(l.states) - 1
	}
	return err
}

// recovered says how many records a folder has for one who opens it. There are at least so many.
func (l *life) recovered(d *simDisk, least int, what string) (records int) {
	l.t.Helper()
	s, m, err := l.open(d)
	if err != nil {
		l.t.Fatalf("%s: %v", what, err)
	}
	got := text(m)
	if err := s.Close(); err != nil {
		l.t.Fatalf("%s: %v", what, err)
	}
	for i := len(l.states) - 1; i >= least; i-- {
		if l.states[i] == got {
			return i
		}
	}
	l.t.Fatalf("%s: %d acknowledged, %d done, and it has\n%s\nwant\n%s", what, least,
		len(l.states)-1, got, strings.Join(l.states[max(0, len(l.states)-5):], "\n"))
	return 0
}

// checkCrash kills the process, and lets the power fail, now, and after a recovery. It returns the
// folder of a killed process.
func (l *life) checkCrash(d *simDisk, what string) {
	l.t.Helper()
	atPower := 0
	if l.cfg.Sync == Always {
		atPower = l.acked
	}
	l.recovered(d.powerFailed(nil), atPower, what+", nothing else left")
	for range 4 {
		after := d.powerFailed(l.lost)
		n := l.recovered(after, atPower, what+", the power failed")
		l.recovered(after.powerFailed(l.lost), n, what+", the power failed, and again")
	}
	after := d.killed()
	n := l.recovered(after, atPower, what)
	l.recovered(after.powerFailed(l.lost), n, what+", and the power failed then")
}

// run opens a folder and writes, opens it again and writes, until something fails.
func (l *life) run(d disk) error {
	for range 2 {
		s, m, err := l.open(d)
		if err != nil {
			return err
		}
		for range l.writes {
			if err = l.write(s, m); err != nil {
				break
			}
			if l.cfg.Sync != Always || l.keys > 100 {
				<-time.After(time.Duration(l.r.IntN(300)) * time.Millisecond)
			}
		}
		if err := errors.Join(err, s.Close()); err != nil {
			return err
		}
	}
	return nil
}

func newLife(t *testing.T, policy Policy, seed int) *life {
	return &life{t: t, r: rand.New(rand.NewPCG(1, 1)), states: []string{""}, keys: 12, writes: 40,
		lost: rand.New(rand.NewPCG(uint64(seed), 2)),
		cfg:  Config{Sync: policy, size: 400}}
}

var policies = []Policy{EverySecond, Always, Never}

// stride is of how many operations of the disk, or bytes, a test takes one.
func stride() int {
	if testing.Short() {
		return 7
	}
	return 1
}

// TestCrash: the process is killed at each operation of the disk, in the middle of a write, too,
// and the power fails then. The map comes back as it was after a record, one behind all that was
// acknowledged if these were synced.
func TestCrash(t *testing.T) {
	for _, policy := range policies {
		for at, hit := 1, true; hit; at += stride() {
			synctest.Test(t, func(t *testing.T) {
				l := newLife(t, policy, at)
				d := newSimDisk()
				d.at, d.wrong = at, errKilled
				err := l.run(d)
				if hit = d.hit; !hit && err != nil {
					t.Fatal(err)
				}
				l.checkCrash(d, fmt.Sprintf("policy %d, killed at %d, %s", policy, at, d.last))
				if !hit && at < 100 {
					t.Fatalf("%d operations", at)
				}
			})
		}
	}
}

// TestFails: each operation of the disk fails once, and writes half. Then either a snapshot has
// failed, or no write is acknowledged any more; what was acknowledged is there.
func TestFails(t *testing.T) {
	for _, policy := range policies {
		snapshots, logs := 0, 0
		for at, hit := 1, true; hit; at += stride() {
			synctest.Test(t, func(t *testing.T) {
				l := newLife(t, policy, at)
				told := 0
				l.cfg.Report = func(error) { told++ }
				d := newSimDisk()
				d.at, d.wrong = at, errDisk
				err := l.run(d)
				what := fmt.Sprintf("policy %d, failed at %d, %s", policy, at, d.last)
				switch hit = d.hit; {
				case !hit && err != nil:
					t.Fatal(err)
				case hit && err == nil:
					snapshots++
					if told == 0 {
						t.Errorf("%s: nobody was told", what)
					}
				case hit:
					logs++
					if !errors.Is(err, errDisk) {
						t.Errorf("%s: %v", what, err)
					}
				}
				l.checkCrash(d, what)
			})
		}
		if snapshots < 10/stride() || logs < 20/stride() {
			t.Errorf("%d snapshots, %d logs failed", snapshots, logs)
		}
	}
}

// TestScan: a snapshot that is written while writes go on makes of the logs behind it what they
// were, wherever a crash cuts these.
func TestScan(t *testing.T) {
	for seed := range 60 {
		synctest.Test(t, func(t *testing.T) {
			l := newLife(t, policies[seed%len(policies)], seed)
			l.keys, l.writes, l.cfg.block, l.cfg.size = 300, 400, 200, 2500
			d := newSimDisk()
			d.drag, d.wrong = 50*time.Millisecond, errKilled
			d.at = 300 + l.lost.IntN(700)
			if err := l.run(d); err != nil && !d.hit {
				t.Fatal(err)
			}
			l.checkCrash(d, fmt.Sprintf("seed %d, killed at %d, %s", seed, d.at, d.last))
		})
	}
}

// TestCrashMany: several goroutines write, each a key of its own. Each finds what was acknowledged
// to it, and never more than it wrote.
func TestCrashMany(t *testing.T) {
	for seed := range 100 {
		synctest.Test(t, func(t *testing.T) {
			d := newSimDisk()
			d.at, d.wrong, d.slow = 20+2*seed, errKilled, time.Millisecond
			m := index.NewMap()
			s := numbers(m)
			if err := s.open(d, Config{Sync: Always, size: 3000}); err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			var done, acked [4]uint64
			for g := range done {
				all.Go(func() {
					for i := range uint64(100) {
						done[g]++
						if _, _, err := s.Put([]byte{byte(g)}, i+1); err != nil {
							return
						}
						acked[g]++
						<-time.After(time.Duration(g*300+int(i)) * time.Microsecond)
					}
				})
			}
			all.Wait()
			_ = s.Close() // the process is dead
			for _, after := range []*simDisk{d.powerFailed(nil), d.killed()} {
				m := index.NewMap()
				s := numbers(m)
				if err := s.open(after, Config{}); err != nil {
					t.Fatal(err)
				}
				for g := range done {
					if n, _ := m.Get([]byte{byte(g)}); n < acked[g] || n > done[g] {
						t.Errorf("killed at %d, %s: writer %d finds %d, %d were acknowledged, %d written",
							d.at, d.last, g, n, acked[g], done[g])
					}
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
