package server_test

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kv/client"
	"github.com/userspace-rpc/erpc/kv/message"
	"github.com/userspace-rpc/erpc/kv/mica"
	"github.com/userspace-rpc/erpc/kv/server"
	"github.com/userspace-rpc/erpc/transport/faulty"
)

// step is an operation of a history, on one key.
type step struct {
	key   int
	typ   uint8 // message.Get, Write (if absent: Add), Delete, Increment
	value uint64
}

// outcome is the result of an operation.
type outcome struct {
	value uint64
	err   error
}

// register is a number that may be absent (-1).
var register = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		by := map[int][]porcupine.Operation{}
		for _, op := range history {
			k := op.Input.(step).key
			by[k] = append(by[k], op)
		}
		for _, p := range by {
			parts = append(parts, p)
		}
		return parts
	},
	Init: func() any { return int64(-1) },
	Step: func(state, in, out any) (bool, any) {
		n, s, o := state.(int64), in.(step), out.(outcome)
		absent := n < 0
		switch s.typ {
		case message.Get:
			return absent == (o.err == mica.ErrNotFound) && (absent || int64(o.value) == n), n
		case message.Delete:
			return absent == (o.err == mica.ErrNotFound), int64(-1)
		case message.Write:
			if !absent {
				return o.err == mica.ErrExists, n
			}
			return o.err == nil, int64(s.value)
		}
		if absent {
			return o.err == mica.ErrNotFound, n
		}
		return o.err == nil && int64(o.value) == n+1, n + 1
	},
}

// TestLinearizable: clients at work on the same keys see one order, while packets are lost,
// repeated and overtaken; so each operation runs once.
func TestLinearizable(t *testing.T) {
	each := 60
	if testing.Short() {
		each = 15
	}
	s := serve(t, server.Config{Partitions: 2, Store: mica.Config{Mode: mica.Store}})
	loop := newLoop(t, faulty.Faults{Loss: 0.02, Dup: 0.02, Reorder: 0.02}, erpc.Timing{})
	var clock atomic.Int64
	var mu sync.Mutex
	var history []porcupine.Operation
	var all sync.WaitGroup
	for id := range 8 {
		c := connectOver(t, loop, client.Config{Servers: s.addrs[:1]})
		all.Go(func() {
			for i := range each {
				in := step{key: (id + i*i) % 5, value: uint64(1000*id + i)}
				in.typ = []uint8{message.Get, message.Write, message.Increment, message.Get,
					message.Delete}[(i+id)%5]
				from := clock.Add(1)
				out := perform(t, c, in)
				op := porcupine.Operation{ClientId: id, Input: in, Output: out, Call: from,
					Return: clock.Add(1)}
				mu.Lock()
				history = append(history, op)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if got := porcupine.CheckOperationsTimeout(register, history, time.Minute); got != porcupine.Ok {
		t.Errorf("%v: %d operations", got, len(history))
	}
	if loop.Stats().Protocol.Retransmits == 0 {
		t.Error("nothing was sent again")
	}
}

func perform(t *testing.T, c *client.Client, in step) (out outcome) {
	key := fmt.Append(nil, "key ", in.key)
	var v message.Value
	switch in.typ {
	case message.Get:
		if v, out.err = c.Get(t.Context(), key); out.err == nil {
			out.value, out.err = strconv.ParseUint(string(v.Value), 10, 64)
		}
	case message.Write:
		_, out.err = c.Write(t.Context(), message.Item{Key: key, Value: fmt.Append(nil, in.value),
			If: mica.IfAbsent})
	case message.Delete:
		out.err = c.Delete(t.Context(), key, 0)
	default:
		out.value, out.err = c.Increment(t.Context(), key, 1, false)
	}
	return out
}
