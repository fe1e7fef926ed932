package erpc_test

import (
	"context"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/wire"
)

// fullServer has as many sessions as it takes. Most are those of another client; the others are in
// use by a Client for which no call ends, since the answers are lost.
type fullServer struct {
	*dialedClient
	ctx   context.Context // of the calls
	other *erpc.Rpc
	taken *erpc.Session // one of its sessions
}

func newFullServer(t *testing.T, limit, others int) *fullServer {
	p := &fullServer{dialedClient: newDialedClientOf(t, erpc.Config{
		Slots: 1, NoBundles: true, MaxSessions: limit, Shares: erpc.Shares{Off: true},
	})}
	var err error
	p.other, err = p.nexus.NewRpc(p.net.end(true))
	is(t, "another client", err, nil)
	ctx, cancel := context.WithCancel(t.Context())
	p.ctx = ctx
	t.Cleanup(func() {
		cancel()
		is(t, "close", p.other.Close(), nil)
	})
	for range others {
		p.taken, err = p.other.CreateSessionTo(p.send.addr)
		is(t, "a session of another client", err, nil)
	}
	p.cend.lose = func(pkt []byte) bool { return wire.Type(pkt[0]&15) == wire.TypeResp }
	p.tick = erpc.Time(time.Millisecond)
	p.await("its sessions", p.round, func() bool { return p.server.Sessions() == 1+others })
	return p
}

// await makes steps until cond holds.
func (p *fullServer) await(what string, step func(), cond func() bool) {
	p.tb.Helper()
	for end := p.net.now.Add(time.Minute); !cond(); p.run(p.other) {
		if step(); p.net.now > end {
			p.tb.Fatalf("in vain: %s", what)
		}
	}
}

// call starts a call that would like a further session.
func (p *fullServer) call() { p.beginWith(p.ctx, p.net.now+p.tick) }

// refusals lets calls come until sessions were refused, and n times again, and returns the
// times between.
func (p *fullServer) refusals(n int) (gaps []time.Duration) {
	p.tb.Helper()
	last := erpc.Time(0)
	for len(gaps) < n {
		seen := p.refuses
		p.await("a refusal", p.call, func() bool { return p.refuses > seen })
		switch gap := p.net.now.Sub(last); {
		case last != 0 && gap < 10*time.Millisecond:
			continue // of a session that was asked for at the same time
		case last != 0:
			gaps = append(gaps, gap)
		}
		last = p.net.now
	}
	return gaps
}

// TestGrowthBacksOff: while a server refuses further sessions it is asked for them after 50 ms,
// then each time after twice as long, however many it refuses at once. Once it gives one the waits
// are short again.
func TestGrowthBacksOff(t *testing.T) {
	const limit, least = 10, 50 * time.Millisecond
	p := newFullServer(t, limit, 6)
	check := func(what string) {
		t.Helper()
		for i, gap := range p.refusals(4) {
			if want := least << i; gap < want || gap > want+20*time.Millisecond {
				t.Errorf("%s: refused after %v, want %v", what, gap, want)
			}
		}
	}
	check("at first")
	is(t, "close a session", p.other.CloseSession(p.taken), nil)
	p.await("an end", p.round, func() bool { return p.server.Sessions() < limit })
	p.await("a further session", p.call, func() bool { return p.server.Sessions() == limit })
	check("after one was opened")
}
