package erpc_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// gatedEnd is a memEnd whose loop sleeps until the test lets it make a pass.
type gatedEnd struct {
	*memEnd
	parked chan struct{} // the loop sleeps
	resume chan struct{} // it goes on
	woken  chan struct{} // it was woken: there is a command
	over   chan struct{} // closed: it sleeps no more

	resolve func() (transport.Addr, error) // in place of Resolve, if not nil
}

func (e *gatedEnd) Wait(time.Duration) error {
	select {
	case e.parked <- struct{}{}:
	case <-e.over:
		return nil
	}
	select {
	case <-e.resume:
	case <-e.over:
	}
	return nil
}

func (e *gatedEnd) Wake() {
	select {
	case e.woken <- struct{}{}:
	default:
	}
}

// dialedClient is a Client in its own goroutine whose passes the test makes, in virtual time, and
// a server stepped by hand.
type dialedClient struct {
	*errPair
	c        *erpc.Client
	end      *gatedEnd
	nexus    *erpc.Nexus
	free     func() // lets the client's loop run on its own
	served   *erpc.Session
	connects int // attempts to connect that came to the server
	refuses  int // refusals that came to the client
}

func newDialedClient(t *testing.T) *dialedClient { return newDialedClientOf(t, erpc.Config{}) }

// newDialedClientOf is newDialedClient with a configuration.
func newDialedClientOf(t *testing.T, cfg erpc.Config) *dialedClient {
	p := &dialedClient{errPair: &errPair{}}
	net := newMemNet()
	net.tb = t
	p.memPair = &memPair{tb: t, net: net, cend: net.end(true), send: net.end(true), tick: 100_000}
	p.end = &gatedEnd{
		memEnd: p.cend, parked: make(chan struct{}), resume: make(chan struct{}),
		woken: make(chan struct{}, 1), over: make(chan struct{}),
	}
	p.cend.tap, p.send.tap = p.count, p.count
	cfg.Wait, cfg.Simulation = erpc.WaitSleep, erpc.Simulation{Clock: net.Now, Seed: 7}
	cfg.OnSession = func(r *erpc.Rpc, s *erpc.Session, ev erpc.SessionEvent) {
		if ev == erpc.SessionConnected && !s.IsClient() {
			p.served = s
		} else if ev == erpc.SessionConnected {
			p.client = r
		}
	}
	n, err := erpc.NewNexus(cfg)
	is(t, "nexus", err, nil)
	is(t, "register", n.Register(tEcho, erpc.Dispatch, func(h erpc.ReqHandle) {
		_ = h.RespondBytes(h.Data())
	}), nil)
	p.nexus = n
	p.server, err = n.NewRpc(p.send)
	is(t, "server", err, nil)
	dialed := make(chan error)
	go func() {
		var err error
		p.c, err = erpc.Dial(t.Context(), p.end, p.send.addr.String(), cfg)
		dialed <- err
	}()
	<-p.end.parked
	for err = errors.New("not yet"); err != nil; {
		select {
		case err = <-dialed:
			is(t, "dial", err, nil)
		default:
			p.round()
		}
	}
	p.free = sync.OnceFunc(func() { close(p.end.over) })
	t.Cleanup(func() {
		p.free()
		is(t, "close", p.c.Close(), nil)
		is(t, "close", p.server.Close(), nil)
	})
	return p
}

// Resolve knows one server.
func (e *gatedEnd) Resolve(string) (transport.Addr, error) {
	if e.resolve != nil {
		return e.resolve()
	}
	return e.net.ends[1].addr, nil
}

func (p *dialedClient) count(pkt []byte, _ transport.Addr) {
	var h wire.Header
	if h.Parse(pkt) != nil || h.Type != wire.TypeMgmt {
		return
	}
	switch wire.Op(h.ReqType) {
	case wire.OpConnect:
		p.connects++
	case wire.OpRefuse:
		p.refuses++
	}
}

// roundAt lets the client make its passes at a time, then the server one.
func (p *dialedClient) roundAt(now erpc.Time) {
	p.net.now = now
	p.end.resume <- struct{}{}
	<-p.end.parked
	p.run(p.server)
}

func (p *dialedClient) round() { p.roundAt(p.net.now + p.tick) }

// begin starts a call that comes to the client's loop at a time.
func (p *dialedClient) begin(t *testing.T, now erpc.Time) (result chan error) {
	return p.beginWith(t.Context(), now)
}

// beginWith is begin with a context.
func (p *dialedClient) beginWith(ctx context.Context, now erpc.Time) (result chan error) {
	result = make(chan error, 1)
	p.awaitWake(func() {
		go func() {
			_, err := p.c.Call(ctx, tEcho, []byte{1})
			result <- err
		}()
	})
	p.roundAt(now)
	return result
}

// awaitWake returns when what f does has woken the client's loop, and waits for it there: the loop
// may be woken for something else before.
func (p *dialedClient) awaitWake(f func()) {
	select {
	case <-p.end.woken: // for something else
	default:
	}
	f()
	for <-p.end.woken; !p.c.HasCommands(); <-p.end.woken {
	}
}

// refuse waits until the server has refused the session for which a call waits. It returns when
// the client learned of that, and the call's error. There were so many attempts to connect before
// the call; no time passes while another goroutine looks the server up.
func (p *dialedClient) refuse(connects int, result chan error) (at erpc.Time, err error) {
	p.tb.Helper()
	for p.connects == connects && !p.c.HasCommands() {
		<-p.end.woken
	}
	end := p.net.now + 1e9
	for refuses := p.refuses; p.refuses == refuses; p.round() {
		if p.net.now > end {
			p.tb.Fatal("the server was not asked")
		}
	}
	p.round()
	return p.net.now, <-result
}

// TestRefusedClientWaits: after a refusal calls fail at once, with the same error and without
// another attempt to connect, for 20 ms.
func TestRefusedClientWaits(t *testing.T) {
	const wait = 20 * time.Millisecond
	p := newDialedClient(t)
	ok := p.begin(t, p.net.now+1000)
	p.round()
	is(t, "a call", <-ok, nil)
	is(t, "refuse", p.server.Refuse(), nil)
	is(t, "close the session", p.server.CloseSession(p.served), nil)
	p.round()
	p.round()

	for range 3 {
		connects := p.connects
		at, first := p.refuse(connects, p.begin(t, p.net.now+1000))
		is(t, "a call that connects", first, erpc.ErrRefused)
		if p.connects == connects {
			t.Error("nobody connected")
		}
		connects = p.connects
		for _, after := range []time.Duration{1, wait / 2, wait - 1} {
			result := p.begin(t, at.Add(after))
			if p.connects != connects {
				t.Fatalf("the client connects again %v after a refusal", after)
			}
			if err := <-result; err != first {
				t.Errorf("%v after a refusal: %v, want %v", after, err, first)
			}
		}
		p.net.now = at.Add(wait - 1000) // the next call comes just when it may connect
	}
}
