package hostiletest

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// roleEnv holds a role as JSON in the environment of a child.
const roleEnv = "ERPC_HOSTILETEST_ROLE"

// role tells a child process its task. The process writes what it did to Log, in records, with
// one system call each: what was written outlives kill -9.
type role struct {
	Name        string // "server" or "client"
	Addr        string // where it serves, or whom it calls
	Incarnation uint32
	Seed        uint64
	Log         string
}

// record is one entry of a log: a request that begins to run, or a call that has ended.
type record struct {
	ID          uint64
	Fate        uint32
	Incarnation uint32 // of the server that answered
}

const recordSize = 16

func (r *record) write(to *os.File) {
	var b [recordSize]byte
	binary.LittleEndian.PutUint64(b[0:], r.ID)
	binary.LittleEndian.PutUint32(b[8:], r.Fate)
	binary.LittleEndian.PutUint32(b[12:], r.Incarnation)
	if _, err := to.Write(b[:]); err != nil {
		panic(err)
	}
}

// runRole does what the environment says, and reports whether it says anything.
func runRole() bool {
	text := os.Getenv(roleEnv)
	if text == "" {
		return false
	}
	var r role
	err := json.Unmarshal([]byte(text), &r)
	if err == nil {
		err = r.play()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s %d: %v\n", r.Name, r.Incarnation, err)
		os.Exit(1)
	}
	return true
}

// play does what the role says. The goroutine that reads orders is the only one that it leaves.
func (r *role) play() error {
	log, err := os.OpenFile(r.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	before := runtime.NumGoroutine()
	if r.Name == "server" {
		err = r.serve(log)
	} else {
		err = r.call(log)
	}
	if err == nil && !wait(func() bool { return runtime.NumGoroutine() <= before+1 }) {
		err = fmt.Errorf("%d goroutines are left, there were %d", runtime.NumGoroutine(), before)
	}
	return err
}

// wait waits until a condition holds; false if it never does.
func wait(cond func() bool) bool {
	for end := time.Now().Add(patience); !cond(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// orders returns the lines that the parent says. It ends the process if the parent is gone.
func orders() <-chan string {
	lines := make(chan string)
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			lines <- in.Text()
		}
		os.Exit(2)
	}()
	return lines
}

// serve serves until the parent says "quit".
func (r *role) serve(log *os.File) error {
	s, err := erpc.NewServer(quick(false))
	if err != nil {
		return err
	}
	run := func(req []byte) ([]byte, error) {
		(&record{ID: binary.LittleEndian.Uint64(req)}).write(log)
		return answer(r.Incarnation, req)
	}
	err = errors.Join(
		s.Handle(typeWorker, func(_ context.Context, req []byte) ([]byte, error) { return run(req) }),
		s.HandleInline(typeInline, func(h erpc.ReqHandle) {
			if resp, err := run(h.Data()); err != nil {
				_ = h.RespondError(err)
			} else {
				_ = h.RespondBytes(resp)
			}
		}))
	if err != nil {
		return err
	}
	tr, err := udp.Listen(r.Addr, udp.Config{})
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(tr) }()
	fmt.Println("up", tr.LocalAddr())
	for line := range orders() {
		if line == "quit" {
			break
		}
	}
	if !wait(func() bool { return s.Stats()[0].Sessions == 0 }) {
		return fmt.Errorf("%d sessions are left", s.Stats()[0].Sessions)
	}
	if err := s.Close(); err != nil {
		return err
	}
	if err := <-served; !errors.Is(err, erpc.ErrClosed) || errors.Is(err, erpc.ErrBufferLeak) {
		return fmt.Errorf("Serve: %w", err)
	}
	return nil
}

// caller is the state of a client process.
type caller struct {
	*role
	log             *os.File
	client          *erpc.Client
	begun, answered atomic.Uint64
	stop            atomic.Bool
}

// call makes calls until the parent says "quit", and says how many it made. To "more" it answers
// when some more calls have been answered.
func (r *role) call(log *os.File) error {
	c := &caller{role: r, log: log}
	var err error
	for range maxTries { // a server that is stopped does not answer
		tr, lerr := udp.Listen("127.0.0.1:0", udp.Config{})
		if lerr != nil {
			return lerr
		}
		if c.client, err = erpc.Dial(context.Background(), tr, r.Addr, quick(false)); err == nil {
			break
		}
	}
	if err != nil {
		return err
	}
	fmt.Println("up", "")
	var workers sync.WaitGroup
	for i := range goroutines {
		rng := rand.New(rand.NewPCG(r.Seed, uint64(i)))
		workers.Go(func() {
			for !c.stop.Load() {
				c.one(rng)
			}
		})
	}
	for line := range orders() {
		if line == "quit" {
			break
		}
		until := c.answered.Load() + 20
		if !wait(func() bool { return c.answered.Load() >= until }) {
			return errors.New("calls are not answered any more")
		}
		fmt.Println("more", "")
	}
	c.stop.Store(true)
	workers.Wait()
	fmt.Println("made", c.begun.Load())
	return c.client.Close()
}

// one makes one call and records how it ended. An answer that is wrong ends the process.
func (c *caller) one(r *rand.Rand) {
	id := uint64(c.Incarnation)<<32 | c.begun.Add(1)
	size := r.IntN(300)
	if r.IntN(4) == 0 {
		size = r.IntN(20_000)
	}
	req := request(id, size, size)
	ctx, cancel := context.WithTimeout(context.Background(), between(r, 0, 3*time.Second))
	defer cancel()
	resp, err := c.client.Call(ctx, uint8(typeWorker+r.IntN(2)), req)
	rec := record{ID: id}
	f, ok := fateOf(err)
	if !ok {
		panic(err)
	}
	if rec.Fate = uint32(f); f == answered {
		var bad string
		if rec.Incarnation, bad = verify(req, resp, err); bad != "" {
			panic(bad)
		}
	}
	rec.write(c.log)
	if f == answered {
		c.answered.Add(1)
		<-time.After(between(r, 0, 2*time.Millisecond)) // calls need not be many
	} else {
		<-time.After(5 * time.Millisecond)
	}
}
