package session

import (
	"errors"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/wire"
)

const (
	heartbeat = 500 * ms
	failAfter = 3000 * ms
)

// clientEnd is the client's end of an open session.
func clientEnd() *End {
	return &End{
		Peer: serverHost, Local: clientSession, LocalToken: clientToken,
		Remote: serverSession, RemoteToken: serverToken,
	}
}

// alive reads a liveness packet that must be sealed for the server's session.
func alive(t *testing.T, tx Tx) (wire.Op, wire.Alive) {
	t.Helper()
	if tx.Dst != serverHost {
		t.Fatalf("packet for %v", tx.Dst)
	}
	op, h, body := mgmt(t, flatten(tx), serverToken)
	if h.Session != serverSession {
		t.Fatalf("packet for session %d", h.Session)
	}
	var a wire.Alive
	a.Parse(body)
	if a.Session != clientSession || a.Token != clientToken {
		t.Fatalf("answer would go to %+v", a)
	}
	return op, a
}

// TestPingAfter: after a silence of PingAfter there is time for enough pings until the peer is
// lost, if the timeout allows it.
func TestPingAfter(t *testing.T) {
	for _, c := range []struct{ heartbeat, timeout, want, lost monotime.Time }{
		{heartbeat, failAfter, 3 * heartbeat, failAfter},
		{heartbeat, 5 * heartbeat, 2 * heartbeat, 5 * heartbeat},
		{heartbeat, 4 * heartbeat, heartbeat, 4 * heartbeat},
		{heartbeat, heartbeat, heartbeat, 4 * heartbeat},
		{heartbeat, 100 * heartbeat, 3 * heartbeat, 100 * heartbeat},
	} {
		quiet := PingAfter(time.Duration(c.heartbeat), time.Duration(c.timeout))
		if quiet != time.Duration(c.want) {
			t.Errorf("timeout %v: %v, want %v", c.timeout, quiet, c.want)
		}
		var w Watch
		w.Heard(0)
		now, first := monotime.Time(0), monotime.Time(0)
		for {
			ping, alive := w.PingDue(now, quiet, time.Duration(c.heartbeat), time.Duration(c.timeout))
			if ping && first == 0 {
				first = now
			}
			if !alive {
				break
			}
			now += 10 * ms
		}
		if first != c.want || now != c.lost {
			t.Errorf("timeout %v: asked at %v, lost at %v", c.timeout, first, now)
		}
	}
}

// TestWatchOwnStop: this process was stopped for an hour. The silence is its own
// fault; the peer answers the first ping.
func TestWatchOwnStop(t *testing.T) {
	var w Watch
	w.Heard(0)
	now := monotime.Time(3600_000) * ms
	for i := range monotime.Time(minPings) {
		if _, alive := w.PingDue(now+i*heartbeat, heartbeat, heartbeat, failAfter); !alive {
			t.Fatalf("a live peer counts as lost after %d pings", i)
		}
	}
	w.Heard(now + minPings*heartbeat)
	if _, alive := w.PingDue(now+(minPings+1)*heartbeat, heartbeat, heartbeat, failAfter); !alive {
		t.Error("lost although it answered")
	}
	// A peer that is really gone is still noticed.
	end := now + 100*heartbeat
	alive := true
	for now += minPings * heartbeat; now < end && alive; now += heartbeat {
		_, alive = w.PingDue(now, heartbeat, heartbeat, failAfter)
	}
	if alive {
		t.Error("a dead peer is never lost")
	}
}

// TestQuiet: a session is quiet when nothing came and nothing was asked.
func TestQuiet(t *testing.T) {
	var l Liveness
	out := NewOut(4, false)
	l.Heard(100)
	if l.Quiet(149, 50) || !l.Quiet(150, 50) {
		t.Error("it is quiet 50 ns after the last packet")
	}
	l.Probe(clientEnd(), 1, 150, out)
	if l.Quiet(199, 50) || !l.Quiet(200, 50) || len(out.Tx) != 1 || l.Probed() != 150 {
		t.Error("it is quiet 50 ns after the last question")
	}
}

// TestHeardSince: a packet has come after a time if that is earlier than its own.
func TestHeardSince(t *testing.T) {
	var w Watch
	var l Liveness
	w.Heard(100)
	l.Heard(100)
	for at, want := range map[monotime.Time]bool{99: true, 100: false, 101: false} {
		if w.HeardSince(at) != want || l.HeardSince(at) != want {
			t.Errorf("after %d: peer %v, session %v", at, w.HeardSince(at), l.HeardSince(at))
		}
	}
}

// TestUnanswered: the last question is unanswered until something comes later, and only its number
// says how long the answer took.
func TestUnanswered(t *testing.T) {
	var l Liveness
	l.Heard(100)
	l.Probe(clientEnd(), 5, 100, NewOut(4, false))
	if !l.Unanswered(5) || l.Unanswered(4) || l.Unanswered(6) {
		t.Errorf("questions 4 to 6: %v, %v, %v", l.Unanswered(4), l.Unanswered(5), l.Unanswered(6))
	}
	for seq := range uint64(8) {
		if d, ok := l.Took(seq, 130); d != 30 || ok != (seq == 5) {
			t.Errorf("the answer to question %d took %d, %v", seq, d, ok)
		}
	}
	l.Heard(101)
	if l.Unanswered(5) {
		t.Error("a question is unanswered though the session was heard")
	}
}

func TestLivenessPackets(t *testing.T) {
	var l Liveness
	e, out := clientEnd(), NewOut(4, false)
	l.Pong(e, 1<<63+5, 0, out)
	l.Disconnect(e, nil, out)
	l.Probe(e, 2, 7, out)
	if len(out.Tx) != 3 {
		t.Fatalf("%d packets, want 3", len(out.Tx))
	}
	for i, want := range []struct {
		op  wire.Op
		seq uint64
	}{{wire.OpPong, 1<<63 + 5}, {wire.OpDisconnect, 1}, {wire.OpPing, 2}} {
		if op, a := alive(t, out.Tx[i]); op != want.op || a.Seq != want.seq {
			t.Errorf("packet %d is %v %d", i, op, a.Seq)
		}
	}
	for _, op := range []wire.Op{wire.OpReset, wire.OpDisconnectAck} {
		out.Reset()
		Answer(&clientHost, 0, wire.Version, op, &wire.Alive{Session: 4, Token: 5, Seq: 6}, out)
		got, h, body := mgmt(t, flatten(out.Tx[0]), 5)
		var a wire.Alive
		a.Parse(body)
		if out.Tx[0].Dst != clientHost {
			t.Errorf("packet for %v", out.Tx[0].Dst)
		}
		if got != op || h.Session != 4 || a != (wire.Alive{Session: wire.NoSession, Seq: 6, To: 5}) {
			t.Errorf("%v for session %d: %+v", got, h.Session, a)
		}
		if len(out.Tx[0].Head) > wire.HeaderSize+wire.AliveSize {
			t.Error("the answer is larger than the question")
		}
	}
}

func TestTimingFill(t *testing.T) {
	if got, err := (Timing{}).Fill(); err != nil || got.RTOMin != 5_000_000 ||
		got.DisconnectLinger != 200_000_000 {
		t.Errorf("%+v, %v", got, err)
	}
	for bad, want := range map[Timing]TimingError{
		{RTOMin: -1}:                      {"RTOMin", "is -1ns, must not be negative"},
		{DisconnectLinger: -1}:            {"DisconnectLinger", "is -1ns, must not be negative"},
		{RTOMin: 2, RTOMax: 1}:            {"RTOMin", "is 2ns, must be at most RTOMax, 1ns"},
		{Heartbeat: 2, FailureTimeout: 1}: {"Heartbeat", "is 2ns, must be at most FailureTimeout, 1ns"},
	} {
		_, err := bad.Fill()
		var got *TimingError
		if !errors.As(err, &got) || *got != want || !errors.Is(err, ErrTiming) {
			t.Errorf("%+v: %v, want %v", bad, err, want)
		}
	}
}
