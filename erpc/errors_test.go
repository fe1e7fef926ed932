package erpc_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// handler types of errPair.
const (
	tEcho = 1 + iota
	tHold // keeps the handle in errPair.held
	tBackground
	tHuge // answers with 5000 bytes
	tPanic
)

// errPair is a memPair whose server's handlers can be held.
type errPair struct {
	*memPair
	held  []erpc.ReqHandle
	hold  func(h erpc.ReqHandle) // takes the handle instead, if not nil
	tasks []erpc.Task            // background handlers that wait
	// Called by a background handler before it responds, if not nil.
	onTask func(h erpc.ReqHandle)
}

func (p *errPair) Submit(t erpc.Task) bool {
	p.tasks = append(p.tasks, t)
	return true
}

func newErrPair(t *testing.T, cfg erpc.Config) *errPair {
	t.Helper()
	return newErrPairOn(t, newMemNet(), cfg)
}

// newErrPairOn is newErrPair on a given network.
func newErrPairOn(t *testing.T, net *memNet, cfg erpc.Config) *errPair {
	t.Helper()
	p := &errPair{}
	cfg.Simulation.Executor = p
	p.memPair = newMemPairOn(t, net, cfg, func(n *erpc.Nexus) { p.register(t, n) })
	return p
}

// register adds the server's handlers.
func (p *errPair) register(t testing.TB, n *erpc.Nexus) {
	for typ, h := range map[uint8]erpc.Handler{
		tEcho: func(h erpc.ReqHandle) { _ = h.RespondBytes(h.Data()) },
		tHold: func(h erpc.ReqHandle) {
			if p.hold != nil {
				p.hold(h)
			} else {
				p.held = append(p.held, h)
			}
		},
		tHuge:  func(h erpc.ReqHandle) { _ = h.RespondBytes(make([]byte, 5000)) },
		tPanic: func(erpc.ReqHandle) { panic("as asked") },
		tBackground: func(h erpc.ReqHandle) {
			p.held = append(p.held, h)
			if p.onTask != nil {
				p.onTask(h)
			}
			_ = h.RespondBytes(h.Data())
		},
	} {
		mode := erpc.Dispatch
		if typ == tBackground || typ == tPanic {
			mode = erpc.Background
		}
		if err := n.Register(typ, mode, h); err != nil {
			t.Fatal(err)
		}
	}
}

// result is the outcome of one RPC.
type result struct {
	id      erpc.RequestID
	ends    int
	err     error
	resp    []byte
	pattern bool // the response has the bytes of fillPattern
}

// enqueue starts an RPC with a request of n bytes.
func (p *errPair) enqueue(typ uint8, n int, timeout time.Duration) *result {
	p.tb.Helper()
	req, err := p.client.Alloc(n)
	if err != nil {
		p.tb.Fatal(err)
	}
	fillPattern(req.Data())
	res := &result{pattern: typ != tHuge}
	res.id, err = p.client.EnqueueRequest(p.sess,
		erpc.Request{Type: typ, Req: req, Timeout: timeout, Done: func(c erpc.Completion) {
			res.ends++
			res.err = c.Err
			spoil(c.Req)
			if c.Resp != nil {
				res.resp = append([]byte{}, c.Resp.Data()...)
				spoil(c.Resp)
			}
		}})
	if err != nil {
		req.Free()
		res.ends, res.err = 1, err
	}
	return res
}

// fillPattern writes what every request of enqueue holds.
func fillPattern(b []byte) {
	for i := range b {
		b[i] = byte(i * 7)
	}
}

// call is enqueue, until the end.
func (p *errPair) call(typ uint8, n int) *result {
	p.tb.Helper()
	res := p.enqueue(typ, n, 0)
	p.until(func() bool { return res.ends > 0 })
	return res
}

func is(t testing.TB, what string, err error, wants ...error) {
	t.Helper()
	for _, want := range wants {
		if !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	if errors.Is(err, erpc.ErrNotRun) && strings.Contains(err.Error(), "outcome unknown") {
		t.Errorf("%s: %q matches ErrNotRun", what, err)
	}
}

// runTasks runs the background handlers that wait.
func (p *errPair) runTasks() {
	for len(p.tasks) > 0 {
		task := p.tasks[0]
		p.tasks = p.tasks[1:]
		task.Run()
	}
}

func TestRemoteErrors(t *testing.T) { eachNet(t, checkRemoteErrors) }

func checkRemoteErrors(t *testing.T, net *memNet) {
	p := newErrPairOn(t, net, erpc.Config{MaxMessage: 100_000})
	is(t, "unregistered type", p.call(77, 10).err, erpc.ErrNoHandler, erpc.ErrRemote)
	is(t, "unregistered type, many packets", p.call(77, 10_000).err, erpc.ErrNoHandler)
	res := p.enqueue(tPanic, 1, 0)
	p.until(func() bool { return len(p.tasks) > 0 })
	p.runTasks()
	p.until(func() bool { return res.ends > 0 })
	is(t, "panic", res.err, erpc.ErrPanic, erpc.ErrRemote)

	res = p.enqueue(tHold, 1, 0)
	p.until(func() bool { return len(p.held) > 0 })
	text := strings.Repeat("x", 600)
	is(t, "RespondError", p.held[0].RespondError(errors.New(text)), nil)
	p.until(func() bool { return res.ends > 0 })
	var remote *erpc.Error
	if !errors.As(res.err, &remote) || remote.Reason != erpc.ReasonApplication ||
		remote.Code != erpc.CodeUnknown || remote.Text != text[:wire.MaxErrorText] ||
		remote.Error() != remote.Text {
		t.Errorf("application error: %+v", remote)
	}
	for code, want := range map[erpc.Reason]error{
		erpc.ReasonNoHandler: erpc.ErrNoHandler,
		erpc.ReasonTooLarge:  erpc.ErrTooLarge,
		erpc.ReasonExhausted: erpc.ErrExhausted,
		erpc.ReasonShutdown:  erpc.ErrDraining,
		erpc.ReasonPanic:     erpc.ErrPanic,
	} {
		err := error(&erpc.Error{Reason: code, Text: "why"})
		is(t, "remote", err, want, erpc.ErrRemote)
		if errors.Is(err, erpc.ErrDeadline) || !strings.Contains(err.Error(), "why") ||
			!strings.Contains(err.Error(), code.String()) {
			t.Errorf("%v", err)
		}
	}
	p.close()
}

// TestTooLarge: each limit, and that the session lives on.
func TestTooLarge(t *testing.T) { eachNet(t, checkTooLarge) }

func checkTooLarge(t *testing.T, net *memNet) {
	p := newErrPairOn(t, net, erpc.Config{MaxMessage: 100_000})
	_, err := p.client.Alloc(100_001)
	is(t, "Alloc over MaxMessage", err, erpc.ErrTooLarge)
	is(t, "Alloc of a negative size", second(p.client.Alloc(-1)), erpc.ErrTooLarge)
	is(t, "the largest", p.call(tEcho, 100_000).err, nil)

	req, _ := p.client.Alloc(10)
	resp, _ := p.client.Alloc(100)
	var got error
	q := erpc.Request{Type: tHuge, Req: req, Resp: resp, Done: func(c erpc.Completion) { got = c.Err }}
	_, err = p.client.EnqueueRequest(p.sess, q)
	is(t, "enqueue", err, nil)
	p.until(func() bool { return got != nil })
	is(t, "response larger than the buffer", got, erpc.ErrTooLarge)
	req.Free()
	resp.Free()
	is(t, "after it", p.call(tEcho, 10).err, nil)
	p.close()
}

func second[T any](_ T, err error) error { return err }

// TestAgreedLimit: the smaller MaxMessage of both sides holds for both directions.
func TestAgreedLimit(t *testing.T) { eachNet(t, checkAgreedLimit) }

func checkAgreedLimit(t *testing.T, net *memNet) {
	p := newErrPairOn(t, net, erpc.Config{MaxMessage: 100_000})
	end := p.net.end(true)
	n, err := erpc.NewNexus(erpc.Config{Simulation: erpc.Simulation{Clock: p.net.Now},
		MaxMessage: 3000})
	is(t, "nexus", err, nil)
	var respond error
	is(t, "register", n.Register(tEcho, erpc.Dispatch, func(h erpc.ReqHandle) {
		if respond = h.RespondBytes(make([]byte, 10*len(h.Data()))); respond == nil {
			respond = errors.New("none")
		}
	}), nil)
	small, err := n.NewRpc(end)
	is(t, "rpc", err, nil)
	full := p.sess
	p.sess, err = p.client.CreateSessionTo(end.addr)
	is(t, "session", err, nil)
	res := p.enqueue(tEcho, 3001, 0) // found out when the session opens
	both := func(cond func() bool) {
		p.until(func() bool {
			_, _ = small.RunOnce()
			return cond()
		})
	}
	both(func() bool { return res.ends > 0 })
	is(t, "request over the server's limit, before the session is open", res.err, erpc.ErrTooLarge)
	is(t, "request over the server's limit", p.enqueue(tEcho, 3001, 0).err, erpc.ErrTooLarge)
	res = p.enqueue(tEcho, 301, 0)
	both(func() bool { return res.ends > 0 })
	is(t, "response over the server's limit, at the client", res.err, erpc.ErrTooLarge, erpc.ErrRemote)
	is(t, "response over the server's limit, at the server", respond, erpc.ErrTooLarge)
	p.sess = full
	is(t, "another session of the client", p.call(tEcho, 50_000).err, nil)
	is(t, "close", small.Close(), nil)
	p.close()
}

// TestExhausted: queue, sessions, background requests, memory.
func TestExhausted(t *testing.T) { eachNet(t, checkExhausted) }

func checkExhausted(t *testing.T, net *memNet) {
	p := newErrPairOn(t, net, erpc.Config{Slots: 2, MaxQueue: 3, MaxSessions: 2, MaxBackground: 1})
	var all []*result
	for range 2 + 3 {
		all = append(all, p.enqueue(tHold, 10, 0))
	}
	is(t, "queue full", p.enqueue(tHold, 10, 0).err, erpc.ErrExhausted)
	for len(p.held) < 2 {
		p.step()
	}
	if a, b := p.sess.Pending(); a != 2 || b != 3 {
		t.Errorf("%d in flight, %d queued", a, b)
	}
	for i := 0; i < len(all); i++ {
		p.until(func() bool { return len(p.held) > i })
		is(t, "respond", p.held[i].RespondBytes(nil), nil)
		p.until(func() bool { return all[i].ends > 0 })
		is(t, "held", all[i].err, nil)
	}
	_, err := p.client.CreateSessionTo(p.send.addr)
	is(t, "the last session", err, nil)
	_, err = p.client.CreateSessionTo(p.send.addr)
	is(t, "one session too many", err, erpc.ErrExhausted)

	one := p.enqueue(tBackground, 10, 0)
	p.until(func() bool { return len(p.tasks) == 1 })
	is(t, "one background request too many", p.call(tBackground, 10).err, erpc.ErrExhausted,
		erpc.ErrRemote)
	p.runTasks()
	p.until(func() bool { return one.ends > 0 })
	is(t, "the first", one.err, nil)
	p.close()
}

// TestMemoryLimit: without memory requests fail with a name, and work again later.
func TestMemoryLimit(t *testing.T) {
	p := newErrPair(t, erpc.Config{MemoryLimit: 6 << 20, MaxMessage: 2 << 20, Slots: 8})
	var bufs []*erpc.MsgBuffer
	var err error
	for err == nil {
		var b *erpc.MsgBuffer
		if b, err = p.client.Alloc(1 << 20); err == nil {
			bufs = append(bufs, b)
		}
	}
	is(t, "Alloc", err, erpc.ErrExhausted)
	for _, b := range bufs {
		b.Free()
	}
	is(t, "Alloc later", p.call(tEcho, 100_000).err, nil)
	var all []*result
	for range 3 {
		all = append(all, p.enqueue(tHold, 1<<20, 0))
	}
	p.until(func() bool { return len(p.held) == 3 })
	err = nil
	for _, h := range p.held { // requests of 3 MiB are held, and no room for all responses
		err = errors.Join(err, h.RespondBytes(make([]byte, 2<<20)))
	}
	is(t, "respond without memory", err, erpc.ErrExhausted)
	for _, res := range all {
		p.until(func() bool { return res.ends > 0 })
	}
	err = errors.Join(all[0].err, all[1].err, all[2].err)
	is(t, "call without memory at the server", err, erpc.ErrExhausted)
	p.close()
}

// TestConfig: each field out of range is named, and what it must be.
func TestConfig(t *testing.T) {
	for field, bad := range map[string][]erpc.Config{
		"Slots":         {{Slots: -1}, {Slots: 3}, {Slots: 127}, {Slots: session.MaxSlots + 1}},
		"Credits":       {{Credits: -1}, {Credits: session.MaxCredits + 1}},
		"MTU":           {{MTU: -1}, {MTU: session.MinMTU - 1}, {MTU: 1<<16 + 1}},
		"MaxMessage":    {{MaxMessage: -1}, {MaxMessage: wire.MaxMsgSize + 1}},
		"MaxSessions":   {{MaxSessions: -1}, {MaxSessions: 1<<24 + 1}},
		"MaxQueue":      {{MaxQueue: -1}, {MaxQueue: 1<<24 + 1}},
		"Burst":         {{Burst: -1}, {Burst: 4097}},
		"Workers":       {{Workers: -1}, {Workers: 1<<16 + 1}},
		"MaxBackground": {{MaxBackground: -1}, {MaxBackground: 1<<20 + 1}},
		"Wait":          {{Wait: erpc.WaitSleep + 1}},
		"SpinFor":       {{SpinFor: -1}},
		"MemoryLimit":   {{MemoryLimit: -1}},
		"Timing.RTOMin": {{Timing: erpc.Timing{RTOMin: -1}},
			{Timing: erpc.Timing{RTOMin: time.Second}}},
		"Timing.Heartbeat":    {{Timing: erpc.Timing{Heartbeat: time.Hour}}},
		"Timing.ConnectRetry": {{Timing: erpc.Timing{ConnectRetry: -1}}},
		"Shares.IPv4Bits":     {{Shares: erpc.Shares{IPv4Bits: -1}}, {Shares: erpc.Shares{IPv4Bits: 33}}},
		"Shares.IPv6Bits": {{Shares: erpc.Shares{IPv6Bits: -1}},
			{Shares: erpc.Shares{IPv6Bits: 129}}},
	} {
		for _, cfg := range bad {
			_, err := erpc.NewNexus(cfg)
			var ce *erpc.ConfigError
			if !errors.Is(err, erpc.ErrConfig) || !errors.As(err, &ce) || ce.Field != field ||
				!strings.Contains(err.Error(), field) || !strings.Contains(ce.Reason, "must") {
				t.Errorf("%s: %v", field, err)
			}
		}
	}
	if _, err := erpc.NewNexus(erpc.Config{}); err != nil {
		t.Error(err)
	}
}

// tiny is a transport whose packets are too small.
type tiny struct {
	*memEnd
	closed bool
}

func (e *tiny) Caps() transport.Caps { return transport.Caps{MTU: 100} }
func (e *tiny) Close() error         { e.closed = true; return nil }

func TestRegister(t *testing.T) {
	n, err := erpc.NewNexus(erpc.Config{})
	is(t, "nexus", err, nil)
	fn := func(erpc.ReqHandle) {}
	is(t, "nil handler", n.Register(1, erpc.Dispatch, nil), erpc.ErrConfig)
	is(t, "unknown mode", n.Register(1, erpc.Background+1, fn), erpc.ErrConfig)
	is(t, "type 255", n.Register(255, erpc.Dispatch, fn), erpc.ErrReqType)
	is(t, "type 254", n.Register(254, erpc.Dispatch, fn), nil)
	is(t, "twice", n.Register(254, erpc.Dispatch, fn), erpc.ErrConfig)
	small := &tiny{memEnd: (&memNet{}).end(true)}
	is(t, "small MTU", second(n.NewRpc(small)), erpc.ErrConfig)
	if !small.closed {
		t.Error("the transport was not closed")
	}
	r, err := n.NewRpc((&memNet{}).end(true))
	is(t, "rpc", err, nil)
	is(t, "after the first Rpc", n.Register(3, erpc.Dispatch, fn), erpc.ErrConfig)
	is(t, "close", r.Close(), nil)
	is(t, "close again", r.Close(), nil)
	is(t, "nexus", n.Close(), nil)
	is(t, "nexus again", n.Close(), nil)
	is(t, "Rpc of a closed Nexus", second(n.NewRpc((&memNet{}).end(true))), erpc.ErrClosed)
}

// TestDeadline: it ends an RPC in time, wherever that is, and only that one.
func TestDeadline(t *testing.T) { eachNet(t, checkDeadline) }

func checkDeadline(t *testing.T, net *memNet) {
	p := newErrPairOn(t, net, erpc.Config{Slots: 1})
	p.tick = 10_000
	start := p.net.now
	flying := p.enqueue(tHold, 10, 20*time.Millisecond)
	queued := p.enqueue(tEcho, 10, 10*time.Millisecond)
	patient := p.enqueue(tEcho, 10, 10*time.Second)
	p.until(func() bool { return queued.ends > 0 })
	is(t, "in the queue", queued.err, erpc.ErrDeadline)
	if d := p.net.now - start; d < 10e6 || d > 12e6 {
		t.Errorf("after %d ns", d)
	}
	p.until(func() bool { return flying.ends > 0 })
	is(t, "in flight", flying.err, erpc.ErrDeadline)
	if d := p.net.now - start; d < 20e6 || d > 22e6 {
		t.Errorf("after %d ns", d)
	}
	is(t, "the late answer", p.held[0].RespondBytes([]byte{1}), nil)
	p.until(func() bool { return patient.ends > 0 })
	is(t, "the next", patient.err, nil)
	if patient.ends+queued.ends+flying.ends != 3 {
		t.Error("something ended twice")
	}
	p.close()
}

// TestCancel: before it is sent, in flight, in the middle of its packets, while the
// response comes, after it has ended, and twice.
func TestCancel(t *testing.T) { eachNet(t, checkCancel) }

func checkCancel(t *testing.T, net *memNet) {
	p := newErrPairOn(t, net, erpc.Config{Slots: 2, Credits: 2})
	cancel := func(what string, res *result, want error) {
		t.Helper()
		is(t, what, p.client.Cancel(res.id), nil)
		is(t, what, res.err, want)
		is(t, what+" again", p.client.Cancel(res.id), nil)
		if res.ends != 1 {
			t.Errorf("%s: %d ends", what, res.ends)
		}
	}
	a, b := p.enqueue(tHold, 10, 0), p.enqueue(tHold, 10, 0)
	queued := p.enqueue(tEcho, 10, 0)
	cancel("in the queue", queued, erpc.ErrCancelled)
	cancel("before its packet left", b, erpc.ErrCancelled)
	p.until(func() bool { return len(p.held) > 0 })
	cancel("while the handler runs", a, erpc.ErrCancelled)
	for _, h := range p.held {
		_ = h.RespondBytes(nil)
	}
	for steps := range 30 { // from the first packet of the request to the last of the response
		res := p.enqueue(tEcho, 10_000, 0)
		for range steps {
			p.step()
		}
		if res.ends == 0 {
			cancel(fmt.Sprintf("after %d steps", steps), res, erpc.ErrCancelled)
		} else {
			cancel("after its end", res, nil)
			if steps < 5 {
				t.Errorf("done after %d steps", steps)
			}
		}
		is(t, "the next", p.call(tEcho, 10).err, nil)
		if n := p.sess.Credits(); n != 2 {
			t.Fatalf("%d of 2 credits after %d steps", n, steps)
		}
	}
	p.close()
}
