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

// newSlowHostPair is newErrPair on a network whose hosts add delay to round trips.
func newSlowHostPair(t *testing.T, delay time.Duration) *errPair {
	t.Helper()
	net := newMemNet()
	net.hosts = delay
	return newErrPairOn(t, net, erpc.Config{})
}

// TestDeadlineOnSlowHosts: a deadline is noticed within an epoch, however long the hosts hold
// packets up: the epoch is a quarter of the RTOMin that was configured.
func TestDeadlineOnSlowHosts(t *testing.T) {
	for _, hosts := range []time.Duration{0, time.Millisecond, 50 * time.Millisecond} {
		t.Run(fmt.Sprint(hosts), func(t *testing.T) {
			p := newSlowHostPair(t, hosts)
			p.tick = 100_000
			for _, timeout := range []time.Duration{
				time.Millisecond, 2 * time.Millisecond, 7200 * time.Microsecond,
				30 * time.Millisecond, 77 * time.Millisecond,
			} {
				start := p.net.now
				res := p.enqueue(tHold, 10, timeout)
				if wake := p.client.NextWake(); wake > p.net.now.Add(epoch) {
					t.Errorf("the loop would sleep for %v", wake.Sub(p.net.now))
				}
				p.until(func() bool { return res.ends > 0 })
				is(t, "the call", res.err, erpc.ErrDeadline)
				took := p.net.now.Sub(start)
				if took < timeout || took > timeout+epoch+time.Duration(p.tick) {
					t.Errorf("a deadline after %v was noticed after %v", timeout, took)
				}
			}
			p.close()
		})
	}
}

// TestRTOOnSlowHosts: what the delay is for: a packet whose early repeats were lost too is sent
// again later. Before, a few round trips without an answer are enough.
func TestRTOOnSlowHosts(t *testing.T) {
	for hosts, least := range map[time.Duration]time.Duration{
		0: 5 * time.Millisecond, time.Millisecond: 20 * time.Millisecond,
	} {
		p := newSlowHostPair(t, hosts)
		p.tick = 100_000
		lost := 0
		p.send.lose = func([]byte) bool { lost++; return lost <= 4 }
		start := p.net.now
		is(t, "the call", p.call(tEcho, 10).err, nil)
		took := p.net.now.Sub(start)
		if took < least || took > least+3*epoch+3*time.Duration(p.tick) {
			t.Errorf("hosts add %v: a packet lost four times cost %v, want %v", hosts, took, least)
		}
		p.close()
	}
}

// TestTimersOnSlowHosts: connecting, heartbeats, the end of a silent peer and of a session go by
// the same times whatever the hosts add.
func TestTimersOnSlowHosts(t *testing.T) {
	want := mgmtTimes(t, 0)
	if len(want) < 40 {
		t.Fatalf("only %d packets: %v", len(want), want)
	}
	for _, hosts := range []time.Duration{time.Millisecond, 20 * time.Millisecond} {
		if got := mgmtTimes(t, hosts); !slices.Equal(got, want) {
			t.Errorf("hosts add %v: packets\n%v, want\n%v", hosts, got, want)
		}
	}
}

// mgmtTimes returns when which management packets travelled while sessions opened, idled and
// ended.
func mgmtTimes(t *testing.T, hosts time.Duration) (times []string) {
	p := newSlowHostPair(t, hosts)
	start := p.net.now
	note := func(what any) { times = append(times, fmt.Sprint(p.net.now.Sub(start), " ", what)) }
	nobody := p.net.end(true)
	for _, e := range p.net.ends {
		e.tap = func(pkt []byte, _ transport.Addr) {
			var h wire.Header
			if err := h.Parse(pkt); err != nil || h.Type != wire.TypeMgmt {
				t.Fatalf("packet %+v, %v", h, err)
			}
			note(wire.Op(h.ReqType))
		}
	}
	p.tick = 300_000
	s, err := p.client.CreateSessionTo(nobody.addr)
	is(t, "session", err, nil)
	p.until(func() bool { return s.Err() != nil })
	is(t, "nobody answers", s.Err(), erpc.ErrConnect)
	note(s.Err())
	p.until(func() bool { return p.net.now > start+6e9 })

	old := p.sess
	p.connect()
	p.send.deaf = true
	is(t, "close", p.client.CloseSession(p.sess), nil) // in vain, and again
	p.until(func() bool { return old.Err() != nil })
	is(t, "the server is silent", old.Err(), erpc.ErrPeerLost)
	note(old.Err())
	p.close()
	return times
}
