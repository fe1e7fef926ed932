package erpc_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// holdPair is a pair whose handler takes time inside the loop. Holds are those of the responses
// that come to the client, in units of wire.HoldUnit.
type holdPair struct {
	*memPair
	cost    time.Duration
	holds   []int
	pending int
}

func newHoldPair(t *testing.T, cfg erpc.Config) *holdPair {
	p := &holdPair{}
	p.memPair = newMemPair(t, cfg, func(n *erpc.Nexus) {
		is(t, "register", n.Register(1, erpc.Dispatch, func(h erpc.ReqHandle) {
			p.net.now = p.net.now.Add(p.cost)
			is(t, "respond", h.RespondBytes(h.Data()), nil)
		}), nil)
	})
	p.cend.tap = func(pkt []byte, _ transport.Addr) {
		var h wire.Header
		if err := h.Parse(pkt); err == nil && h.Type == wire.TypeResp {
			p.holds = append(p.holds, int(h.Hold))
		}
	}
	return p
}

// ask sends n requests to the server's ring.
func (p *holdPair) ask(t *testing.T, n int) {
	t.Helper()
	for range n {
		req, err := p.client.Alloc(20)
		is(t, "alloc", err, nil)
		_, err = p.client.EnqueueRequest(p.sess, erpc.Request{Type: 1, Req: req, Done: func(
			c erpc.Completion,
		) {
			p.pending--
			is(t, "the call", c.Err, nil)
			c.Req.Free()
			c.Resp.Free()
		}})
		is(t, "enqueue", err, nil)
		p.pending++
	}
	p.run(p.client)
}

// want compares the hold times of the responses since the last time.
func (p *holdPair) want(t *testing.T, what string, holds ...time.Duration) {
	t.Helper()
	var units []int
	for _, h := range holds {
		units = append(units, int(h/wire.HoldUnit))
	}
	if !slices.Equal(p.holds, units) {
		t.Errorf("%s: hold times %v, want %v", what, p.holds, units)
	}
	p.holds = nil
}

// eachChecksum runs a test with packets that carry a checksum, and without.
func eachChecksum(t *testing.T, run func(t *testing.T, checksum bool)) {
	for _, checksum := range []bool{false, true} {
		t.Run(fmt.Sprint(checksum), func(t *testing.T) { run(t, checksum) })
	}
}

// TestHoldOfAPass: what a pass takes counts as hold time of all its answers, from 10 us on.
func TestHoldOfAPass(t *testing.T) {
	eachChecksum(t, func(t *testing.T, checksum bool) {
		p := newHoldPair(t, erpc.Config{Checksum: checksum, NoBundles: true})
		for _, c := range []struct {
			cost, want time.Duration
			n          int
		}{
			{9_999, 0, 1}, {10_000, 10_000, 1}, {50_000, 50_000, 1},
			{3333, 0, 3}, {3334, 10_002, 3}, {20_000, 60_000, 3},
		} {
			p.cost = c.cost
			p.ask(t, c.n)
			p.run(p.server)
			want := slices.Repeat([]time.Duration{c.want}, c.n)
			p.want(t, fmt.Sprintf("%d times %v", c.n, c.cost), want...)
			p.until(func() bool { return p.pending == 0 })
		}
		p.close()
	})
}

// TestHoldOfKeptAnswers: a transport takes some answers of a pass and the others later. The time
// of that pass counts once in each, and the time of the later passes does not.
func TestHoldOfKeptAnswers(t *testing.T) {
	const first, second = 30_000, 70_000
	eachChecksum(t, func(t *testing.T, checksum bool) {
		p := newHoldPair(t, erpc.Config{Checksum: checksum, NoBundles: true})
		room := 1
		p.send.takes = func(n int) int {
			n = min(n, room)
			room -= n
			return n
		}
		p.cost = first
		p.ask(t, 3)
		p.run(p.server)
		p.want(t, "taken at once", 3*first)
		p.cost = second
		p.ask(t, 1)
		p.run(p.server) // nothing leaves, and another answer comes
		p.want(t, "none taken")
		p.net.now = p.net.now.Add(time.Millisecond)
		room = 3
		p.run(p.server)
		p.want(t, "taken later", 3*first, 3*first, second)
		p.ask(t, 2)
		room = 9
		p.run(p.server)
		p.want(t, "of the passes after those", 2*second, 2*second)
		p.until(func() bool { return p.pending == 0 })
		p.close()
	})
}

// TestHoldOfAPause: hold times count the time for which a loop that never sleeps did not look for
// packets, from 10 us on.
func TestHoldOfAPause(t *testing.T) {
	p := newHoldPair(t, erpc.Config{Wait: erpc.WaitSpin, NoBundles: true})
	for _, c := range []struct{ gap, want time.Duration }{
		{9_999, 0}, {10_000, 10_000}, {200_000, 200_000}, {0, 0},
	} {
		asked := 0
		is(t, "run", p.server.Run(func() bool { asked++; return asked == 3 }), nil) // one idle pass
		p.ask(t, 1)
		p.net.now = p.net.now.Add(c.gap)
		p.run(p.server)
		p.want(t, fmt.Sprintf("a pause of %v", c.gap), c.want)
		p.until(func() bool { return p.pending == 0 })
	}
	p.close()
}
