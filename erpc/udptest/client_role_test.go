package udptest

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
)

// job is a command to a client; its calls go to all servers in turn.
type job struct {
	// Op is "calls", "flow" (until halt), "fail" (each worker until one has an error), "heal" (one
	// call until it succeeds) or "memory".
	Op      string
	Calls   int // "calls": how many
	Workers int
	Size    int // the largest message, bytes; sizes vary below unless Exact
	Exact   bool
	Type    uint8
}

// result is how a job went.
type result struct {
	OK       int
	Errors   map[string]int // by kind
	Lost     string         // what the last error of kind "lost" says
	Took     time.Duration
	RSS      int64 // "memory": bytes resident
	Reserved int64 // "memory": bytes of message buffers
}

// kinds gives errors short names.
var kinds = []struct {
	err  error
	name string
}{
	{erpc.ErrPeerLost, "lost"}, {erpc.ErrPeerRestarted, "restarted"}, {erpc.ErrConnect, "connect"},
	{erpc.ErrRefused, "refused"}, {erpc.ErrDeadline, "deadline"}, {erpc.ErrClosed, "closed"},
}

func kindOf(err error) string {
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k.name
		}
	}
	return err.Error()
}

// worker is one client process.
type worker struct {
	id      int
	clients []*erpc.Client
	next    atomic.Uint64
	halt    atomic.Bool

	mu  sync.Mutex
	res result
}

// runClient dials the servers and does jobs until it is told to quit.
func runClient(r *role) error {
	w := &worker{id: r.ID}
	for _, addr := range r.Servers {
		tr, err := r.open()
		if err != nil {
			return err
		}
		c, err := erpc.Dial(context.Background(), tr, addr, r.config())
		if err != nil {
			return err
		}
		w.clients = append(w.clients, c)
	}
	say("up", "")
	orders(func(word, rest string) bool {
		switch word {
		case "halt":
			w.halt.Store(true)
		case "job":
			var j job
			if err := json.Unmarshal([]byte(rest), &j); err != nil {
				panic(err)
			}
			w.halt.Store(false)
			go func() { say("done", w.do(&j)) }()
		}
		return word != "quit"
	})
	for _, c := range w.clients {
		if err := c.Close(); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) do(j *job) result {
	w.res = result{Errors: map[string]int{}}
	start := time.Now()
	var all, flowing sync.WaitGroup
	var left atomic.Int64
	var failed atomic.Bool
	left.Store(int64(j.Calls))
	flowing.Add(j.Workers)
	for range j.Workers {
		all.Go(func() {
			first := sync.OnceFunc(flowing.Done)
			defer first()
			for {
				if j.Op == "calls" && left.Add(-1) < 0 || j.Op == "flow" && w.halt.Load() {
					return
				}
				err := w.call(j)
				first()
				if j.Op == "heal" && err == nil {
					return
				}
				// Whose call ended before the others failed may never see an error.
				if j.Op == "fail" && (err != nil || failed.Load()) {
					failed.Store(true)
					return
				}
			}
		})
	}
	if j.Op == "fail" && j.Type != typeHold || j.Op == "flow" {
		flowing.Wait()
		say("flowing", true)
	}
	all.Wait()
	w.res.Took = time.Since(start)
	if j.Op == "memory" {
		debug.FreeOSMemory()
		w.res.RSS = residentBytes()
		for _, c := range w.clients {
			w.res.Reserved += c.Stats().Memory
		}
	}
	return w.res
}

// call makes one call with contents of its own and notes how it went.
func (w *worker) call(j *job) error {
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	n := w.next.Add(1)
	size := j.Size
	if !j.Exact {
		size = int(n * 7919 % uint64(j.Size+1))
	}
	want := content(w.id, n, max(size, 16))
	got, err := w.clients[n%uint64(len(w.clients))].Call(ctx, j.Type, want)
	if err == nil && !bytes.Equal(got, want) {
		err = fmt.Errorf("call %d of %d bytes: the answer has %d bytes and differs", n,
			len(want), len(got))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.res.Errors[kindOf(err)]++
		if errors.Is(err, erpc.ErrPeerLost) {
			w.res.Lost = err.Error()
		}
	} else {
		w.res.OK++
	}
	return err
}

// content is a message that no other call of any client has.
func content(id int, n uint64, size int) []byte {
	b := make([]byte, size)
	binary.LittleEndian.PutUint64(b, uint64(id))
	binary.LittleEndian.PutUint64(b[8:], n)
	x := n*0x9e3779b97f4a7c15 + uint64(id)
	for i := 16; i < size; i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return b
}
