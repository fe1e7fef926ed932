package erpc

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/wire"
)

// idlePeers is a stub with clients of many peers, which answer all that they are asked.
type idlePeers struct {
	*stub
	sessions []*Session
	pings    int
	sweeps   int             // that pinged
	heard    []monotime.Time // of each peer, the last time
	max      time.Duration   // between two signs of life of a peer
}

func newIdlePeers(t *testing.T, n int, apart time.Duration) *idlePeers {
	p := &idlePeers{stub: newStub(t, Config{})}
	for i := range n {
		s := p.dialTo(i)
		p.accepted(s, i, 3)
		p.sessions = append(p.sessions, s)
		p.heard = append(p.heard, p.now)
		p.run(apart)
	}
	return p
}

// run makes passes for d; each ping is answered in the next one.
func (p *idlePeers) run(d time.Duration) {
	p.tb.Helper()
	for end := p.now.Add(d); p.now < end; {
		p.pass(500 * time.Microsecond)
		sent := p.end.sent
		ops := p.take()
		for k, op := range ops {
			if op != wire.OpPing {
				continue
			}
			i := int(sent[k].to.Port) - 1
			if i >= len(p.sessions) {
				continue
			}
			p.max = max(p.max, p.now.Sub(p.heard[i]))
			p.heard[i] = p.now
			s := p.sessions[i]
			a := alive(s)
			p.receive(i, wire.OpPong, s.conn.End.Local, s.conn.End.LocalToken, wire.AliveSize, a.Put)
			p.pings++
		}
		if len(ops) > 0 {
			p.sweeps++
		}
	}
}

// TestPingsComeTogether: idle peers are asked in a few sweeps, though their sessions opened at
// different times, each after three heartbeats at most and two at least.
func TestPingsComeTogether(t *testing.T) {
	const peers = 100
	p := newIdlePeers(t, peers, 13*time.Millisecond) // 1.3 s in all
	p.run(5 * time.Second)
	p.pings, p.sweeps, p.max = 0, 0, 0
	p.run(30 * time.Second)
	if p.pings < 20*peers-peers || p.pings > 21*peers {
		t.Errorf("%d pings to %d peers in 60 heartbeats", p.pings, peers)
	}
	if p.sweeps > 60 {
		t.Errorf("%d sweeps with pings in 60 heartbeats", p.sweeps)
	}
	if late := 1625*time.Millisecond + p.engine.NextScan().Sub(p.now); p.max > late {
		t.Errorf("a peer was asked %v after its last sign of life", p.max)
	}
	for i, s := range p.sessions {
		if s.Err() != nil {
			t.Errorf("peer %d: %v", i, s.Err())
		}
	}
}

// napEnd is a transport that can leave packets alone.
type napEnd struct {
	*stubEnd
	naps []time.Duration
}

func (e *napEnd) Nap(d time.Duration) error {
	e.naps = append(e.naps, d)
	return nil
}

// TestNap: after a sweep that has pinged the loop sleeps once without looking at packets, if
// nothing but answers to pings is expected.
func TestNap(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(st *stub, s *Session)
		naps int
	}{
		"idle":              {func(*stub, *Session) {}, 1},
		"a request waits":   {func(st *stub, s *Session) { st.request(s) }, 0},
		"somebody's server": {func(st *stub, _ *Session) { st.connectFrom(7, 3, 4) }, 0},
		"no pings": {func(st *stub, s *Session) {
			a := alive(s)
			st.receive(0, wire.OpPing, s.conn.End.Local, s.conn.End.LocalToken, wire.AliveSize, a.Put)
			st.pass(0)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			st := newStub(t, Config{Wait: WaitSleep})
			end := &napEnd{stubEnd: st.end}
			st.tr = end
			s := st.dialTo(0)
			st.accepted(s, 0, 3)
			st.pass(2 * time.Second)
			if name == "no pings" {
				end.naps = nil
				if err := st.sleep(-1); err != nil { // the one that follows the ping
					t.Fatal(err)
				}
				end.naps = nil
			}
			c.set(st, s)
			waits := end.waits
			for range 3 {
				if err := st.sleep(-1); err != nil {
					t.Fatal(err)
				}
				st.pass(time.Microsecond)
			}
			if len(end.naps) != c.naps || end.waits-waits != 3-c.naps {
				t.Errorf("%d naps and %d waits", len(end.naps), end.waits-waits)
			}
			for _, d := range end.naps {
				if d != napFor {
					t.Errorf("a nap of %v", d)
				}
			}
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// request makes a request on a session.
func (st *stub) request(s *Session) {
	st.tb.Helper()
	req, err := st.Alloc(8)
	if err == nil {
		_, err = st.EnqueueRequest(s, Request{Req: req, Done: func(c Completion) { c.Req.Free() }})
	}
	if err != nil {
		st.tb.Fatal(err)
	}
}
