package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
)

// loadReport is what a load measured.
type loadReport struct {
	Dialled   time.Duration `json:"dialled"` // from dialling to the first answer, or to DialError
	DialError string        `json:"dial_error,omitempty"`
	Phases    []phase       `json:"phases"`
	Unended   int           `json:"unended"` // calls that had not ended long after their deadline
	Calls     int           `json:"calls"`
}

// phase is the time from one mark to the next. A call counts where it ends.
type phase struct {
	Name   string                   `json:"name"`
	OK     int                      `json:"ok"`
	Failed map[string]*failedOfKind `json:"failed,omitempty"` // by the error that it matches
	Wrong  int                      `json:"wrong"`            // answers with other bytes than asked
	Bytes  int64                    `json:"bytes"`            // of requests that were answered
	Length time.Duration            `json:"length"`
	Pause  time.Duration            `json:"pause"` // the longest time without an answer
	Back   time.Duration            `json:"back"`  // to the first answer of a call begun in the phase
	Worst  time.Duration            `json:"worst"` // the slowest answer
	Size   int                      `json:"size"`  // data bytes of a packet, at the end
	Least  int                      `json:"least"` // the least of them
	Full   time.Duration            `json:"full"`  // until packets had their largest size again
}

// failedOfKind is calls that failed alike.
type failedOfKind struct {
	N    int    `json:"n"`
	Text string `json:"text"` // of one
}

func (p *phase) failed() (n int) {
	for _, f := range p.Failed {
		n += f.N
	}
	return n
}

// kinds are the errors of calls. What matches none has no name.
var kinds = []struct {
	name string
	err  error
}{
	{"ErrResolve", erpc.ErrResolve}, {"ErrConnect", erpc.ErrConnect}, {"ErrRefused", erpc.ErrRefused},
	{"ErrDraining", erpc.ErrDraining}, {"ErrNoServer", erpc.ErrNoServer},
	{"ErrPeerLost", erpc.ErrPeerLost}, {"ErrPeerRestarted", erpc.ErrPeerRestarted},
	{"ErrPeerClosed", erpc.ErrPeerClosed}, {"ErrDeadline", erpc.ErrDeadline},
	{"ErrExhausted", erpc.ErrExhausted}, {"ErrTooLarge", erpc.ErrTooLarge},
	{"ErrRemote", erpc.ErrRemote}, {"ErrClosed", erpc.ErrClosed}, {"ErrNotRun", erpc.ErrNotRun},
}

const (
	nameless = "?"
	notRun   = ", not run" // ends the kind of errors that say so
)

func kindOf(err error) string {
	for _, k := range kinds {
		if !errors.Is(err, k.err) {
			continue
		}
		if errors.Is(err, erpc.ErrNotRun) {
			return k.name + notRun
		}
		return k.name
	}
	return nameless
}

// How a call ended, in the file of outcomes.
const (
	outcomeNone = iota
	outcomeOK
	outcomeUnknown // failed, and may have run
	outcomeNotRun  // failed, and did not run as its error says
)

// load is callers of one server or pool.
type load struct {
	endpoint
	kind, addr, local string
	callers, size     int
	answer            int // bytes; 0: as those of the request
	deadline, every   time.Duration
	base              uint64 // first id
	watch             bool   // looks at the size of packets

	outcomes []uint32
	call     func(ctx context.Context, request []byte) ([]byte, error)
	stopped  atomic.Bool
	next     atomic.Uint64
	running  atomic.Int64

	mu       sync.Mutex
	sessions map[*erpc.Session]*erpc.Rpc
	report   loadReport
	begun    time.Time // of the phase
	answered time.Time // last
	largest  int       // packets so far
}

// loadMain is the process of a load. It prints a line when the first call was answered, and takes
// "mark NAME", "peek" and "stop" on its standard input.
func loadMain(args []string) error {
	set := flag.NewFlagSet("load", flag.ContinueOnError)
	l := &load{sessions: map[*erpc.Session]*erpc.Rpc{}}
	set.StringVar(&l.kind, "kind", "client", "client, pool, tcp: a dial of package net")
	set.StringVar(&l.addr, "addr", "", "servers, with commas between them")
	set.StringVar(&l.local, "local", ":0", "`address` of the socket")
	set.IntVar(&l.callers, "callers", 4, "")
	set.IntVar(&l.size, "size", 1000, "`bytes` of request and answer")
	set.IntVar(&l.answer, "answer", 0, "`bytes` of the answer, if it is no echo")
	set.DurationVar(&l.deadline, "deadline", 10*time.Second, "of a call")
	set.DurationVar(&l.every, "every", 0, "time between two calls of a caller")
	set.Uint64Var(&l.base, "base", 0, "first id")
	set.BoolVar(&l.watch, "watch", true, "look at the size of packets, a hundred times a second")
	outcomes := set.String("outcomes", "", "`file` of outcomes")
	l.flags(set)
	err := set.Parse(args)
	if err != nil {
		return err
	}
	if l.outcomes, err = openCounts(*outcomes); err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	begun := time.Now()
	err = l.dial()
	l.report.Dialled = time.Since(begun)
	if err != nil {
		l.report.DialError = kindOf(err) + ": " + err.Error()
		_ = out.Encode(ready{Error: err.Error()})
	} else {
		_ = out.Encode(ready{Ready: true})
	}
	return l.serve(out, err == nil)
}

// serve carries out what the lab says.
func (l *load) serve(out *json.Encoder, dialled bool) error {
	l.mark("begin")
	if dialled && l.call != nil {
		for range l.callers {
			l.running.Add(1)
			go l.caller()
		}
		if l.watch {
			go l.watchSizes()
		}
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if name, ok := strings.CutPrefix(in.Text(), "mark "); ok {
			l.mark(name)
			fmt.Println("ok")
			continue
		}
		if in.Text() == "peek" {
			l.mu.Lock()
			err := out.Encode(l.report.Phases[len(l.report.Phases)-1])
			l.mu.Unlock()
			if err != nil {
				return err
			}
			continue
		}
		break
	}
	l.stopped.Store(true)
	end := time.Now().Add(l.deadline + 5*time.Second)
	for l.running.Load() > 0 && time.Now().Before(end) {
		time.Sleep(time.Millisecond)
	}
	l.mu.Lock()
	l.closePhase()
	l.report.Unended = int(l.running.Load())
	l.report.Calls = int(l.next.Load())
	return out.Encode(&l.report)
}

// dial connects, and makes one call.
func (l *load) dial() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), l.deadline)
	defer cancel()
	addrs := strings.Split(l.addr, ",")
	if l.kind == "tcp" {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addrs[0])
		if err == nil {
			_ = c.Close()
		}
		return err
	}
	cfg := l.config()
	cfg.OnSession = l.onSession
	tr, err := l.listen(l.local)
	if err != nil {
		return err
	}
	if l.kind == "pool" {
		err = l.dialPool(ctx, tr, cfg, addrs)
	} else {
		var c *erpc.Client
		if c, err = erpc.Dial(ctx, tr, addrs[0], cfg); err == nil {
			l.call = func(ctx context.Context, request []byte) ([]byte, error) {
				return c.Call(ctx, l.reqType(), request)
			}
		}
	}
	if err != nil {
		return err
	}
	_, err = l.one()
	return err
}

func (l *load) dialPool(
	ctx context.Context, tr transport.Transport, cfg erpc.Config, addrs []string,
) error {
	loop, err := erpc.NewLoop(tr, cfg)
	if err != nil {
		return err
	}
	pool, err := erpc.NewPool(erpc.PoolConfig{Servers: addrs}, loop)
	if err != nil {
		return err
	}
	l.call = func(ctx context.Context, request []byte) ([]byte, error) {
		return pool.CallWith(ctx, erpc.CallOptions{WaitForReady: true, Repeat: true}, nil,
			l.reqType(), request)
	}
	return pool.Ready(ctx)
}

func (l *load) reqType() uint8 {
	if l.answer > 0 {
		return makeType
	}
	return echoType
}

func (l *load) onSession(r *erpc.Rpc, s *erpc.Session, ev erpc.SessionEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch ev {
	case erpc.SessionConnected:
		l.sessions[s] = r
	case erpc.SessionDraining:
	default:
		delete(l.sessions, s)
	}
}

// pattern is what requests are made of.
var pattern = func() []byte {
	b := make([]byte, 1<<16)
	for i := range b {
		b[i] = byte(i*i>>7 ^ i>>3 ^ i)
	}
	return b
}()

// request returns the bytes of a call, which only its id decides.
func request(id uint64, size int) []byte {
	b := make([]byte, max(size, 8))
	for n := 8; n < len(b); {
		n += copy(b[n:], pattern[id*7919%4096:])
	}
	binary.LittleEndian.PutUint64(b, id)
	return b
}

// one makes a call and notes how it ended.
func (l *load) one() (ended bool, err error) {
	n := l.next.Add(1) - 1
	if n >= idsPerLoad {
		l.stopped.Store(true)
		return false, nil
	}
	id := l.base + n
	req := request(id, l.size)
	want := req
	if l.answer > 0 {
		want = request(id, l.answer)
		binary.LittleEndian.PutUint64(req[8:], uint64(l.answer))
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.deadline)
	defer cancel()
	begun := time.Now()
	resp, err := l.call(ctx, req)
	outcome := uint32(outcomeOK)
	switch {
	case err != nil && errors.Is(err, erpc.ErrNotRun):
		outcome = outcomeNotRun
	case err != nil:
		outcome = outcomeUnknown
	}
	atomic.StoreUint32(&l.outcomes[id], outcome)
	l.note(begun, err, err == nil && !bytes.Equal(want, resp))
	return true, err
}

func (l *load) caller() {
	defer l.running.Add(-1)
	for !l.stopped.Load() {
		begun := time.Now()
		_, err := l.one()
		wait := l.every - time.Since(begun)
		if err != nil {
			wait = max(wait, 5*time.Millisecond)
		}
		if wait > 0 {
			time.Sleep(wait)
		}
	}
}

func (l *load) note(begun time.Time, err error, wrong bool) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.report.Phases) == 0 { // the call that dialling makes
		return
	}
	p := &l.report.Phases[len(l.report.Phases)-1]
	if err != nil {
		if p.Failed == nil {
			p.Failed = map[string]*failedOfKind{}
		}
		kind := kindOf(err)
		if p.Failed[kind] == nil {
			p.Failed[kind] = &failedOfKind{Text: err.Error()}
		}
		p.Failed[kind].N++
		return
	}
	if wrong {
		p.Wrong++
	}
	p.OK++
	p.Bytes += int64(l.size)
	p.Pause = max(p.Pause, now.Sub(l.answered))
	l.answered = now
	p.Worst = max(p.Worst, now.Sub(begun))
	if p.Back == 0 && begun.After(l.begun) {
		p.Back = now.Sub(l.begun)
	}
}

// mark begins a phase.
func (l *load) mark(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closePhase()
	l.begun = time.Now()
	l.answered = l.begun
	l.report.Phases = append(l.report.Phases, phase{Name: name})
}

func (l *load) closePhase() {
	if len(l.report.Phases) == 0 {
		return
	}
	p := &l.report.Phases[len(l.report.Phases)-1]
	now := time.Now()
	p.Length = now.Sub(l.begun)
	p.Pause = max(p.Pause, now.Sub(l.answered))
}

// watchSizes looks at the size of the sessions' packets all the time.
func (l *load) watchSizes() {
	for !l.stopped.Load() {
		time.Sleep(10 * time.Millisecond)
		l.mu.Lock()
		list := make(map[*erpc.Session]*erpc.Rpc, len(l.sessions))
		for s, r := range l.sessions {
			list[s] = r
		}
		l.mu.Unlock()
		var sizes []int
		seen := make(chan int, len(list))
		for s, r := range list {
			if r.Post(func(*erpc.Rpc) { seen <- packetSize(s) }) != nil {
				seen <- 0
			}
		}
		for range list {
			select {
			case n := <-seen:
				if n > 0 {
					sizes = append(sizes, n)
				}
			case <-time.After(time.Second):
			}
		}
		if len(sizes) > 0 {
			l.noteSize(slices.Min(sizes))
		}
	}
}

func packetSize(s *erpc.Session) int {
	if !s.Connected() {
		return 0
	}
	return s.Params().PerPacket
}

func (l *load) noteSize(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &l.report.Phases[len(l.report.Phases)-1]
	p.Size = n
	l.largest = max(l.largest, n)
	if p.Least == 0 || n < p.Least {
		p.Least = n
	}
	if n < l.largest {
		p.Full = 0
	} else if p.Full == 0 {
		p.Full = time.Since(l.begun)
	}
}
