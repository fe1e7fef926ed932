package session

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/wire"
)

// look looks for evidence every microsecond until a packet leaves, and returns when it did.
func (b *backoffRig) look() monotime.Time {
	b.tb.Helper()
	for end := b.now + 10*ms; len(b.c2s) == 0; b.now += ms / 1000 {
		if b.cl.Look(b.now, b.cout); b.now > end {
			b.tb.Fatal("nothing has left")
		}
		b.takeClient()
	}
	return b.now - ms/1000
}

// TestEvidenceOfOtherSessions: an answer to a later packet of another session, whose packets travel
// in the same bundles, shows that a packet is lost. Other sessions' answers say nothing.
func TestEvidenceOfOtherSessions(t *testing.T) {
	for _, together := range []bool{true, false} {
		b := newBackoffRig(t, 0)
		b.cl.rtt.srtt, b.cl.rtt.rttvar, b.cl.rtt.hold = ms/100, 0, 0
		other := NewClient(serverHost, clientSession+1, clientToken,
			Timing{RTOMin: 5 * ms, RTOMax: 9 * ms}, 0, b.pool, nil, &b.cst)
		other.Open(b.params, serverSession+1, serverToken, 10*time.Microsecond, b.now, b.cout)
		b.takeClient()
		if b.bundles(1400); together {
			other.SetLink(&b.links[0])
		}
		b.send(1)
		b.loseAll(false)
		b.now += ms / 1000
		op := b.op(100, 10, 10)
		if err := other.Start(op, 0, b.now, b.cout); err != nil {
			t.Fatal(err)
		}
		b.takeClient()
		b.loseAll(false)
		h := wire.Header{Type: wire.TypeResp, ReqNum: uint64(b.params.Slots), MsgSize: 10}
		other.OnResp(&h, make([]byte, 10), &Arrival{Now: b.now + ms/100}, b.cout)
		b.takeClient()
		giveBack(op)

		want := b.cl.rtt.early(oneShare)
		if !together {
			want = b.cl.rtt.early(tailShare)
		}
		if got := time.Duration(b.look()); got < want || got > want+ms/1000 {
			t.Errorf("together %v: sent again after %v, want %v", together, got, want)
		}
		b.answer()
		b.end()
	}
}

// TestLossOfEarlyRepeats: a repeat is lost too. Later packets that are answered show that, and so
// it goes again, each time after twice as long, and no more than a few times: then it may not be
// lost.
func TestLossOfEarlyRepeats(t *testing.T) {
	b := newBackoffRig(t, 1)
	b.loseAll(false)
	sent := b.now
	for n := range maxFast {
		b.send(1)
		b.now += ms / 10
		b.pump(func(uint8) int { return 10 })
		want := b.cl.rtt.early(oneShare) << n
		at := b.look()
		if got := at.Sub(sent); got < want || got > want+ms/1000 {
			t.Errorf("repeat %d after %v, want %v", n, got, want)
		}
		b.loseAll(false)
		sent = at
	}
	for b.now < sent+5*ms-ms/10-1 {
		b.send(1)
		b.now += ms / 10
		b.pump(func(uint8) int { return 10 })
		if b.cl.Look(b.now, b.cout); len(b.cout.Tx) > 0 {
			t.Fatalf("one more repeat after %v", b.now.Sub(sent))
		}
	}
	b.scan(1)
	b.answer()
	b.end()
}

// TestProbesOfTheLast: the last packet goes again a few times, later each time.
func TestProbesOfTheLast(t *testing.T) {
	b := newBackoffRig(t, 2)
	early := b.cl.rtt.early(tailShare)
	b.loseAll(false)
	for n := range maxFast {
		sent := b.now
		b.now += monotime.Time(early<<n) - 1
		if b.cl.Look(b.now, b.cout); len(b.cout.Tx) > 0 {
			t.Errorf("probe %d came early", n)
		}
		b.now++
		if b.cl.Look(b.now, b.cout); len(b.cout.Tx) != 1 {
			t.Errorf("%d packets left after %v", len(b.cout.Tx), b.now.Sub(sent))
		}
		b.takeClient()
		b.loseAll(false)
	}
	b.now += 4 * ms
	if b.cl.Look(b.now, b.cout); len(b.cout.Tx) > 0 {
		t.Error("one more probe")
	}
	b.scan(2)
	b.answer()
	b.end()
}

// TestNoProbe: a packet that waits here for the transport is not probed, nor is one of a request
// that has timed out: only the timeout has it go again.
func TestNoProbe(t *testing.T) {
	b := newBackoffRig(t, 0)
	op := b.op(1, 10, 10)
	if err := b.cl.Start(op, 0, b.now, b.cout); err != nil {
		t.Fatal(err)
	}
	b.ops = append(b.ops, op)
	b.now += 4 * ms
	if b.cl.Look(b.now, b.cout); len(b.cout.Tx) != 1 {
		t.Errorf("%d packets in the queue, want 1", len(b.cout.Tx))
	}
	b.takeClient()
	b.loseAll(false)
	b.now += ms
	b.cl.Scan(b.now, b.cout)
	b.takeClient()
	if len(b.c2s) != 1 || b.cst.Rollbacks != 1 {
		t.Fatalf("%d packets, %+v", len(b.c2s), b.cst)
	}
	b.loseAll(false)
	b.now += 9 * ms
	if b.cl.Look(b.now, b.cout); len(b.cout.Tx) > 0 {
		t.Error("a probe after the timeout")
	}
	b.scan(1)
	b.answer()
	b.end()
}
