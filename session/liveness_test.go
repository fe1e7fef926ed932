package session

import (
	"testing"

	"github.com/userspace-rpc/erpc/wire"
)

const (
	heartbeat = 500 * ms
	failAfter = 3000 * ms
)

func newLiveness() *Liveness {
	return &Liveness{Local: clientSession, LocalToken: clientToken, Remote: serverSession, RemoteToken: serverToken}
}

// alive reads a liveness packet that must be sealed for the server's session.
func alive(t *testing.T, p dgram) (wire.Op, wire.Alive) {
	t.Helper()
	op, h, body := mgmt(t, p, serverToken)
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

func TestLivenessPings(t *testing.T) {
	l, out := newLiveness(), NewOut(4, nil)
	l.Heard(0)
	if !l.Tick(heartbeat-1, heartbeat, failAfter, out) || len(out.Tx) != 0 {
		t.Fatal("ping before the silence")
	}
	for i := int64(1); i < 6; i++ {
		for range 3 { // only the first Tick of each interval pings
			if !l.Tick(i*heartbeat, heartbeat, failAfter, out) {
				t.Fatalf("lost after %d ms", i*heartbeat/ms)
			}
		}
		if len(out.Tx) != 1 || l.lastPing != i*heartbeat {
			t.Fatalf("%d pings at %d ms, last at %d", len(out.Tx), i*heartbeat/ms, l.lastPing)
		}
		if op, a := alive(t, flatten(out.Tx[0])); op != wire.OpPing || a.Seq != uint64(i) {
			t.Errorf("got %v %d", op, a.Seq)
		}
		out.Reset()
	}
	if l.Tick(failAfter, heartbeat, failAfter, out) {
		t.Error("not lost after the timeout and 5 pings")
	}
	l.Heard(failAfter)
	if !l.Tick(failAfter+heartbeat, heartbeat, failAfter, out) || len(out.Tx) != 1 {
		t.Error("an answer does not start it again")
	}
}

// TestLivenessFewPings: with a timeout as short as the heartbeat, the peer still gets
// several pings before it counts as lost.
func TestLivenessFewPings(t *testing.T) {
	l, out := newLiveness(), NewOut(4, nil)
	l.Heard(0)
	now := int64(0)
	for now = heartbeat; l.Tick(now, heartbeat, heartbeat, out); now += heartbeat {
	}
	if len(out.Tx) != minPings || now != (minPings+1)*heartbeat {
		t.Errorf("lost after %d pings at %d ms", len(out.Tx), now/ms)
	}
}

// TestLivenessOwnStop: this process was stopped for an hour. The silence is its own
// fault; the peer answers the first ping.
func TestLivenessOwnStop(t *testing.T) {
	l, out := newLiveness(), NewOut(4, nil)
	l.Heard(0)
	now := int64(3600_000) * ms
	for i := range int64(minPings) {
		if !l.Tick(now+i*heartbeat, heartbeat, failAfter, out) {
			t.Fatalf("a live peer counts as lost after %d pings", i)
		}
	}
	l.Heard(now + minPings*heartbeat)
	if !l.Tick(now+(minPings+1)*heartbeat, heartbeat, failAfter, out) {
		t.Error("lost although it answered")
	}
	// A peer that is really gone is still noticed.
	end := now + 100*heartbeat
	for now += minPings * heartbeat; now < end && l.Tick(now, heartbeat, failAfter, out); now += heartbeat {
	}
	if now >= end {
		t.Error("a dead peer is never lost")
	}
}

func TestLivenessPackets(t *testing.T) {
	l, out := newLiveness(), NewOut(4, nil)
	l.Pong(1<<63+5, out)
	l.Disconnect(out)
	l.Probe(7, out)
	for i, want := range []struct {
		op  wire.Op
		seq uint64
	}{{wire.OpPong, 1<<63 + 5}, {wire.OpDisconnect, 1}, {wire.OpPing, 2}} {
		if op, a := alive(t, flatten(out.Tx[i])); op != want.op || a.Seq != want.seq {
			t.Errorf("packet %d is %v %d", i, op, a.Seq)
		}
	}
	for _, op := range []wire.Op{wire.OpReset, wire.OpDisconnectAck} {
		out.Reset()
		Answer(op, &wire.Alive{Session: 4, Token: 5, Seq: 6}, out)
		got, h, body := mgmt(t, flatten(out.Tx[0]), 5)
		var a wire.Alive
		a.Parse(body)
		if got != op || h.Session != 4 || a != (wire.Alive{Session: wire.NoSession, Seq: 6, To: 5}) {
			t.Errorf("%v for session %d: %+v", got, h.Session, a)
		}
		if len(out.Tx[0].Head) > wire.HeaderSize+wire.AliveSize {
			t.Error("the answer is larger than the question")
		}
	}
}

// TestOutGrows: more control packets than the memory of a batch holds are all right.
func TestOutGrows(t *testing.T) {
	out := NewOut(1, make([]byte, 100))
	l := newLiveness()
	for range 5 {
		l.Probe(0, out)
	}
	for i, tx := range out.Tx {
		if _, a := alive(t, flatten(tx)); a.Seq != uint64(i+1) {
			t.Errorf("packet %d has number %d", i, a.Seq)
		}
	}
}

func TestTimingFill(t *testing.T) {
	if got, err := (Timing{}).Fill(); err != nil || got.RTOMin != 5_000_000 || got.DisconnectLinger != 200_000_000 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []Timing{{RTOMin: -1}, {DisconnectLinger: -1}, {RTOMin: 2, RTOMax: 1}, {Heartbeat: 2, FailureTimeout: 1}} {
		if _, err := bad.Fill(); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}
