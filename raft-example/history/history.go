package history

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/raft-example/kv"
)

// input is a request, output what came of it.
type input struct {
	op         kv.Op
	absent     bool
	key        string
	value, old string
}

type output struct {
	unknown bool // no answer: it may be applied at any time from its call on, or never
	status  kv.Status
	found   bool
	value   string
}

// state is that of one key.
type state struct {
	found bool
	value string
}

// Recorder collects operations; it is safe in any goroutine.
type Recorder struct {
	mu   sync.Mutex
	ops  []porcupine.Operation
	lost int
}

// Add adds a request that a client made from call to ret. An err means that
// there was no answer.
func (r *Recorder) Add(
	client int, cmd kv.Command, call, ret monotime.Time, a kv.Answer, err error) {
	in := input{op: cmd.Op, absent: cmd.Absent, key: cmd.Key.String(), value: cmd.Value.String(),
		old: cmd.Old.String()}
	out := output{status: a.Status, found: a.Found, value: a.Value.String()}
	if err != nil {
		if cmd.Op == kv.Get {
			return // it changed nothing and saw nothing
		}
		out, ret = output{unknown: true}, monotime.Never
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.lost++
	}
	r.ops = append(r.ops, porcupine.Operation{ClientId: client, Input: in, Call: int64(call),
		Output: out, Return: int64(ret)})
}

// Len returns the number of operations, and of those without an answer.
func (r *Recorder) Len() (ops, unknown int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ops), r.lost
}

// Check returns an error if the history is not linearizable, or if that could not be told
// within the limit.
func (r *Recorder) Check(limit time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch porcupine.CheckOperationsTimeout(model, r.ops, limit) {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return fmt.Errorf("history: %d operations could not be checked within %v", len(r.ops), limit)
	}
	for _, part := range model.Partition(r.ops) {
		if !porcupine.CheckOperations(model, part) {
			return fmt.Errorf("history: not linearizable: %d operations on key %q\n%s", len(part),
				part[0].Input.(input).key, describe(part))
		}
	}
	return fmt.Errorf("history: not linearizable")
}

// describe shows the end of the shortest part of a refused history, by calls, that is refused.
func describe(part []porcupine.Operation) string {
	slices.SortFunc(part, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	n := sort.Search(len(part), func(n int) bool {
		return !porcupine.CheckOperations(model, part[:n])
	})
	var text strings.Builder
	for _, o := range part[max(0, n-15):min(n, len(part))] {
		fmt.Fprintf(&text, "client %d [%d, %d] %+v -> %+v\n", o.ClientId, o.Call, o.Return,
			o.Input, o.Output)
	}
	return text.String()
}

var model = porcupine.Model{
	Partition: func(ops []porcupine.Operation) (parts [][]porcupine.Operation) {
		at := map[string]int{}
		for _, o := range ops {
			key := o.Input.(input).key
			i, ok := at[key]
			if !ok {
				i = len(parts)
				at[key], parts = i, append(parts, nil)
			}
			parts[i] = append(parts[i], o)
		}
		return parts
	},
	Init: func() any { return state{} },
	Step: func(s, in, out any) (bool, any) { return step(s.(state), in.(input), out.(output)) },
}

// step is the store, on one key.
func step(s state, in input, out output) (bool, any) {
	want, next := kv.OK, s
	switch in.op {
	case kv.Get:
		if !s.found {
			return out.status == kv.NotFound && !out.found, s
		}
		return out.status == kv.OK && out.found && out.value == s.value, s
	case kv.Put:
		next = state{true, in.value}
	case kv.Delete:
		if !s.found {
			want = kv.NotFound
		}
		next = state{}
	case kv.CAS:
		switch {
		case in.absent && !s.found, !in.absent && s.found && s.value == in.old:
			next = state{true, in.value}
		case s.found:
			return out.unknown || out.status == kv.Mismatch && out.found && out.value == s.value, s
		default:
			want = kv.NotFound
		}
	}
	return out.unknown || out.status == want, next
}
