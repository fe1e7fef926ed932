package index

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/userspace-rpc/erpc/internal/invariants"
)

var seeds = flag.Int("index.seeds", 0, "schedules of TestSchedules; 0: 300")

// stage lets one task run at a time, and decides by a seed at each point who runs next.
type stage struct {
	r       *rand.Rand
	tasks   []*task
	current *task
	back    chan struct{} // the current task is at a point, or has ended
	clock   int64
	points  [pointRead + 1]int
	steps   int
}

type task struct {
	resume chan struct{}
	ended  bool
}

// add starts a task, which waits for its turn.
func (s *stage) add(fn func()) {
	t := &task{resume: make(chan struct{})}
	s.tasks = append(s.tasks, t)
	go func() {
		<-t.resume
		fn()
		t.ended = true
		s.back <- struct{}{}
	}()
}

// at is the scheduler of the tasks.
func (s *stage) at(point int) {
	s.points[point]++
	t := s.current
	s.back <- struct{}{}
	<-t.resume
}

// enough is more steps than any schedule takes.
const enough = 1_000_000

// run runs all tasks to their ends. It reports false if they do not end.
func (s *stage) run() bool {
	at := s.at
	scheduler.Store(&at)
	defer scheduler.Store(nil)
	for len(s.tasks) > 0 {
		i := s.r.IntN(len(s.tasks))
		s.current = s.tasks[i]
		// A task often stays where it is for long: few switches find more than many.
		for range 1 + s.r.IntN(4)*s.r.IntN(8) {
			if s.steps++; s.steps > enough {
				return false
			}
			s.current.resume <- struct{}{}
			<-s.back
			if s.current.ended {
				s.tasks[i] = s.tasks[len(s.tasks)-1]
				s.tasks = s.tasks[:len(s.tasks)-1]
				break
			}
		}
	}
	return true
}

func (s *stage) tick() int64 {
	s.clock++
	return s.clock
}

type stepIn struct {
	what byte
	key  uint64
	val  uint64
}

type stepOut struct {
	val   uint64
	found bool
}

var cell = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		byKey := map[uint64][]porcupine.Operation{}
		for _, o := range history {
			k := o.Input.(stepIn).key
			byKey[k] = append(byKey[k], o)
		}
		for _, p := range byKey {
			parts = append(parts, p)
		}
		return parts
	},
	Init: func() any { return stepOut{} },
	Step: func(state, in, out any) (bool, any) {
		was, i := state.(stepOut), in.(stepIn)
		next := was
		switch i.what {
		case 'p':
			next = stepOut{i.val, true}
		case 'd':
			next = stepOut{}
		}
		return was == out.(stepOut), next
	},
}

// stepKey returns key i: half of them have 8 bytes, the others lie in layers below four slices.
func stepKey(i uint64) []byte {
	if i%2 == 0 {
		return binary.BigEndian.AppendUint64(nil, i)
	}
	key := binary.BigEndian.AppendUint64(nil, i%8)
	return binary.BigEndian.AppendUint64(key, i)
}

// schedule plays one seed.
func schedule(seed uint64) (points [pointRead + 1]int, err error) {
	s := &stage{r: rand.New(rand.NewPCG(seed, 3)), back: make(chan struct{})}
	m := NewMap()
	var history []porcupine.Operation
	keys := 4 + s.r.Uint64N(60)
	step := func(client int, in stepIn) {
		call := s.tick()
		var out stepOut
		k := stepKey(in.key)
		switch in.what {
		case 'p':
			out.val, out.found, _ = m.Put(k, in.val)
		case 'd':
			out.val, out.found = m.Delete(k)
		default:
			out.val, out.found = m.Get(k)
		}
		history = append(history, porcupine.Operation{ClientId: client, Input: in, Call: call,
			Output: out, Return: s.tick()})
	}
	for i := uint64(0); i < keys; i += 2 {
		step(0, stepIn{'p', i, 1000 + i})
	}
	for c, mix := range []string{"p", "ppd", "pd", "d", "g", "g"} {
		r := rand.New(rand.NewPCG(seed, uint64(10+c)))
		s.add(func() {
			for i := range uint64(40) {
				what := mix[r.IntN(len(mix))]
				step(c+1, stepIn{what, r.Uint64N(keys), uint64(c+1)<<32 + i})
			}
		})
	}
	if !s.run() {
		return s.points, fmt.Errorf("seed %d: no end", seed)
	}
	if !porcupine.CheckOperations(cell, history) {
		return s.points, fmt.Errorf("seed %d: not linearizable", seed)
	}
	_, err = m.Check()
	return s.points, err
}

// TestSchedules plays seeded schedules of writers and readers, which change places between any two
// steps that others can see. Each history must be linearizable.
func TestSchedules(t *testing.T) {
	if !invariants.Enabled {
		t.Skip("needs a build with the tag invariants, or the race detector")
	}
	n := *seeds
	if n == 0 {
		n = 300
	}
	var all [pointRead + 1]int
	for seed := range uint64(n) {
		points, err := schedule(seed)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range points {
			all[i] += p
		}
	}
	for i, p := range all {
		if p == 0 {
			t.Errorf("point %d was never reached", i)
		}
	}
}
