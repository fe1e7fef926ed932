package session

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/cc"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/wire"
)

// TestRows: where hosts add to round trips the packets of a paced session leave in rows as long as
// their answers come together, so with a wake-up for eight. Where the path takes rows apart they
// stay short. The session keeps to its rate, and its controller hears of each row once.
func TestRows(t *testing.T) {
	const rate = 3e6
	for _, tt := range []struct {
		what        string
		per         int // packets that the path carries in a tick
		hosts       time.Duration
		least, most float64 // packets that leave together
	}{
		{"fast path", 1000, 80 * time.Microsecond, 7.5, 8},
		{"path that takes some time for them", 4, 250 * time.Microsecond, 7.5, 8},
		{"path that takes them apart", 1, 80 * time.Microsecond, 1, 1.1},
		{"hosts that add nothing", 1000, 0, 1, 1},
	} {
		pacing := &Pacing{LinkRate: 2e9, Slack: 500, Hosts: tt.hosts}
		heard := &countedRate{fixedRate: rate}
		pacing.Algorithm = cc.Algorithm{New: func(float64) cc.Controller { return heard }}
		l := newPacedPath(t, tt.per, 128, 0, true, pacing)
		l.run(20)
		packets, departures, last := 0, 0, l.r.now
		l.r.onTx = func(client bool, p dgram, _ int) {
			if h := p.header(); !client || h.Type != wire.TypeReq {
				return
			}
			if packets++; l.r.now != last {
				last = l.r.now
				departures++
			}
		}
		began := l.r.now
		heard.n = 0
		l.run(300)
		each := float64(packets) / float64(departures)
		got := float64(packets*(1000+wire.HeaderSize+WireOverhead)) / l.r.now.Sub(began).Seconds()
		t.Logf("%s: %.2f packets together, %.2f of the rate", tt.what, each, got/rate)
		if each < tt.least || each > tt.most || got < 0.95*rate || got > 1.05*rate ||
			heard.n > departures+departures/10 {
			t.Error("not as it must be")
		}
		l.r.onTx = nil
		l.end()
	}
}

// TestSmallBesideRows: a message of one packet whose turn it is, as it is each second time, does
// not wait until a row is complete, but for an answer at most.
func TestSmallBesideRows(t *testing.T) {
	pacing := &Pacing{LinkRate: 2e9, Slack: 500, Hosts: 100 * time.Microsecond}
	pacing.Algorithm = cc.Algorithm{New: func(float64) cc.Controller { return fixedRate(3e6) }}
	l := newPacedPath(t, 1000, 128, 0, true, pacing)
	l.run(20)
	l.over = true // both requests under way last
	const messages = 50
	late := 0
	for range messages {
		began, sent := l.r.now, monotime.Time(0)
		l.r.onTx = func(client bool, p dgram, _ int) {
			if h := p.header(); client && h.Type == wire.TypeReq && h.MsgSize == 32 {
				sent = l.r.now
			}
		}
		l.ref++
		op := l.r.op(l.ref, 32, 1)
		l.ops[l.ref] = op
		l.r.start(op)
		for sent == 0 {
			l.step()
		}
		if waited := sent.Sub(began); waited > pathTrip+pathTick {
			late++
		}
		for range 37 {
			l.step()
		}
	}
	if late > messages/2 {
		t.Errorf("%d of %d messages waited for longer", late, messages)
	}
	l.r.onTx = nil
	l.end()
}

// countedRate is a fixedRate that counts what it is told.
type countedRate struct {
	fixedRate
	n int
}

func (c *countedRate) OnAck(now cc.Time, rtt, base time.Duration, bytes int, ce bool) (
	float64, time.Duration,
) {
	c.n++
	return c.fixedRate.OnAck(now, rtt, base, bytes, ce)
}
