package session

import (
	"errors"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// refuseVersion gives a refusal of what a dialer says to it. The nonce of its next attempt is 78
// and so on.
func refuseVersion(r *dialRig, oldest, newest uint8) (err error, ok bool) {
	nonce := r.d.Connect.Nonce
	refusal := wire.VersionRefusal{Nonce: nonce, Asked: r.d.Version, Least: oldest, Most: newest}
	return r.d.OnVersion(&refusal, wire.OldVersion, wire.Version, nonce+1, 0)
}

// TestOnVersion: a refusal counts only if it is about the version of this attempt, and of this
// attempt.
func TestOnVersion(t *testing.T) {
	r := newDialRig(t)
	good := wire.VersionRefusal{Nonce: 77, Asked: wire.Version, Least: 4, Most: 5}
	if err, ok := r.d.OnVersion(&good, 2, 3, 1, 0); !ok || !errors.Is(err, ErrVersion) ||
		!strings.Contains(err.Error(), "4 to 5") || !strings.Contains(err.Error(), "side 2 to 3") {
		t.Errorf("a refusal: %v, %v", err, ok)
	}
	for name, change := range map[string]func(*wire.VersionRefusal){
		"nonce":   func(r *wire.VersionRefusal) { r.Nonce++ },
		"version": func(r *wire.VersionRefusal) { r.Asked++ },
		"range":   func(r *wire.VersionRefusal) { r.Least = wire.Version },
	} {
		bad := good
		if change(&bad); bad == good {
			t.Fatal(name)
		}
		if err, ok := r.d.OnVersion(&bad, 2, 3, 1, 0); ok || err != nil {
			t.Errorf("another %s: %v, %v", name, err, ok)
		}
	}
	if r.d.Version != wire.Version || r.d.Connect.Nonce != 77 {
		t.Errorf("it goes on as %d with version %d", r.d.Connect.Nonce, r.d.Version)
	}
}

// TestDownAndUp: an attempt goes down to the old version and up again once, each time under another
// nonce and in the time that it had; what refuses it then ends it.
func TestDownAndUp(t *testing.T) {
	r := newDialRig(t)
	deadline := r.d.deadline
	for i, want := range []uint8{wire.OldVersion, wire.Version} {
		if err, ok := refuseVersion(r, want, want); err != nil || !ok {
			t.Fatalf("turn %d: %v, %v", i, err, ok)
		}
		if r.d.Version != want || r.d.Connect.Nonce != uint64(78+i) || r.d.deadline != deadline {
			t.Fatalf("turn %d: version %d, nonce %d, until %v", i, r.d.Version, r.d.Connect.Nonce,
				r.d.deadline)
		}
		if err := r.d.Tick(0, r.cout); err != nil || len(r.cout.Tx) != 1 {
			t.Fatalf("turn %d: %v, %d packets", i, err, len(r.cout.Tx))
		}
		var h wire.Header
		if err := h.Parse(r.cout.Tx[0].Head); err != nil || h.Version != want {
			t.Errorf("turn %d: %v, a Connect of version %d", i, err, h.Version)
		}
		r.cout.Reset()
	}
	if err, ok := refuseVersion(r, wire.OldVersion, wire.OldVersion); !ok ||
		!errors.Is(err, ErrVersion) {
		t.Errorf("the third refusal: %v, %v", err, ok)
	}
}

// TestNoWayDown: a side that does not speak the old version ends the attempt.
func TestNoWayDown(t *testing.T) {
	r := newDialRig(t)
	refusal := wire.VersionRefusal{Nonce: 77, Asked: wire.Version, Least: 2, Most: 2}
	if err, ok := r.d.OnVersion(&refusal, wire.Version, wire.Version, 1, 0); !ok ||
		!errors.Is(err, ErrVersion) || r.d.Version != wire.Version {
		t.Errorf("%v, %v, goes on with version %d", err, ok, r.d.Version)
	}
}

// TestManyPacketsOfFallenPath: a request that has begun takes more than 65,536 packets once the
// path carries smaller ones. It goes on in them; in the old version it ends.
func TestManyPacketsOfFallenPath(t *testing.T) {
	for _, version := range []uint8{wire.OldVersion, wire.Version} {
		p := rigParams
		p.PerPacket, p.MaxMessage, p.Version = 8000, 96<<20, version
		r := newRig(t, p, Timing{}, 0, msgbuf.Config{MaxMessage: 96 << 20})
		r.open(0)
		op := r.hugeOp(1, 96<<20, 10) // 12,583 packets, and then 70,493
		r.start(op)
		if !r.cl.LowerCut(wire.CutSizes[1]) {
			t.Fatal("the packets are not smaller")
		}
		for range 2 {
			r.c2s = nil
			r.now += 300 * ms
			r.cl.Scan(r.now, r.cout)
			r.takeClient()
		}
		if version == wire.OldVersion {
			if len(r.failed) != 1 || r.failed[0].Err != ErrTooLarge {
				t.Errorf("it ended as %v", r.failed)
			}
			op.free()
			continue
		}
		last := uint32(0)
		r.onTx = func(fromClient bool, p dgram, _ int) {
			if fromClient {
				last = max(last, p.header().PktNum)
			}
		}
		r.pump(func(uint8) int { return 10 })
		if len(r.failed) != 0 || !r.cl.Idle() || last != 70_492 {
			t.Errorf("it ended as %v; packet %d was the last", r.failed, last)
		}
		op.free()
		r.noLeak()
	}
}

// TestHolesHeeded: a client that is told which packets are missing sends the first of these holes
// again, and all if the list is not one.
func TestHolesHeeded(t *testing.T) {
	for name, tt := range map[string]struct {
		holes []byte
		want  int
		small bool // it is about a request of one packet
	}{
		"none":          {nil, 4, false},
		"one":           {wire.AppendHole(nil, 1, 2), 2, false},
		"two":           {wire.AppendHole(wire.AppendHole(nil, 1, 1), 3, 2), 1, false},
		"elsewhere":     {wire.AppendHole(nil, 2, 2), 4, false},
		"before":        {wire.AppendHole(nil, 0, 2), 4, false},
		"not in order":  {wire.AppendHole(wire.AppendHole(nil, 1, 3), 2, 1), 4, false},
		"more than all": {wire.AppendHole(nil, 1, wire.MaxHole), 4, false},
		"cut off":       {wire.AppendHole(nil, 1, 2)[:3], 4, false},
		"of one packet": {wire.AppendHole(nil, 0, 1), 1, true},
	} {
		r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
		r.open(0)
		op := r.op(1, 5000, 10)
		r.start(op)
		r.c2s = nil
		h := wire.Header{Type: wire.TypeCR, Flags: wire.FlagGap, MsgSize: uint32(len(tt.holes)),
			Session: clientSession, ReqNum: 8, PktNum: 1}
		if tt.small {
			r.now += ms
			op2 := r.op(2, 10, 10)
			r.start(op2)
			h.ReqNum, h.PktNum = 9, 0
			defer giveBack(op2)
			r.c2s = nil
		}
		r.cl.OnCR(&h, tt.holes, r.arrival(), r.cout)
		r.takeClient()
		if len(r.c2s) != tt.want {
			t.Errorf("%s: %d packets were sent again, want %d", name, len(r.c2s), tt.want)
		}
		r.c2s = nil
		r.closeClient(ErrClosed)
		giveBack(op)
	}
}

// TestQueryAfterHoles: a slot that sent a hole again and was then told that its handler waits asks
// after the request in time.
func TestQueryAfterHoles(t *testing.T) {
	r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
	r.open(0)
	op := r.op(1, 5000, 10)
	r.start(op)
	holes := wire.AppendHole(nil, 3, 1)
	r.cl.OnCR(&wire.Header{Type: wire.TypeCR, Flags: wire.FlagGap, MsgSize: uint32(len(holes)),
		Session: clientSession, ReqNum: 8, PktNum: 3}, holes, r.arrival(), r.cout)
	r.takeClient()
	r.cl.OnWait(&wire.Header{Type: wire.TypeWait, Session: clientSession, ReqNum: 8, PktNum: 4,
		Hold: wire.TryHold(1, 0)}, r.arrival(), r.cout)
	r.takeClient()
	r.c2s = nil
	r.now += 60_000 * ms
	r.cl.Scan(r.now, r.cout)
	r.takeClient()
	if len(r.c2s) != 1 || r.c2s[0].header().PktNum != 4 {
		t.Errorf("%d packets ask after the request, want the last of it", len(r.c2s))
	}
	r.closeClient(ErrClosed)
	giveBack(op)
}
