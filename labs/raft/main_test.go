package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/labs/raft/lab"
)

// TestMain: started as a replica, the test is one.
func TestMain(m *testing.M) {
	if system := os.Getenv(childEnv); system != "" {
		if err := runMember(system, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestRun: both stores work, and figures come out.
func TestRun(t *testing.T) {
	var out, progress bytes.Buffer
	if err := run(t.Context(), []string{"-keys=100", "-rounds=1", "-each=50ms", "-json"}, &out,
		&progress); err != nil {
		t.Fatal(err, progress.String())
	}
	var r report
	err := json.Unmarshal(out.Bytes(), &r)
	if err != nil || len(r.GRPC) != 2 || r.GRPC[0].Put.P50 == 0 || r.GRPC[1].Put.P50 == 0 ||
		r.GRPC[1].Plain.P50 == 0 || len(r.Ours) == 0 || r.Ours[0].Puts == 0 {
		t.Errorf("%v: %s", err, out.String())
	}
}

// TestLoad: all systems work under load, and figures come out. etcd's own start takes seconds.
func TestLoad(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	list := "erpc,erpc-loop-lease,least@" + self + ",grpc-go,etcd,hashi-tcp,hraft,least-loop"
	if testing.Short() {
		list = "erpc,erpc-loop-lease"
	}
	var out, progress bytes.Buffer
	args := []string{"load", "-systems=" + list, "-keys=20", "-rounds=1", "-each=100ms", "-clients=4",
		"-endpoints=2",
		"-memory=" + t.TempDir(), "-durable=" + t.TempDir(), "-json"}
	if err := run(t.Context(), args, &out, &progress); err != nil {
		t.Fatal(err, progress.String())
	}
	var rows []row
	if err := json.Unmarshal(out.Bytes(), &rows); err != nil {
		t.Fatal(err)
	}
	if want := map[bool]int{true: 3, false: 12}[testing.Short()]; len(rows) != want {
		t.Errorf("%d rows, want %d", len(rows), want)
	}
	for _, r := range rows {
		for _, k := range []kind{r.Put, r.Get, r.HalfPut, r.HalfGet} {
			if k.PerSecond == 0 || k.P50 == 0 || k.P99 < k.P50 || r.Durable && r.Fsync == 0 {
				t.Errorf("%+v", r)
			}
		}
	}
}

// TestAlone: a system that is to be alone runs in its turns only.
func TestAlone(t *testing.T) {
	for _, alone := range []bool{true, false} {
		c := &loadConfig{clients: 4, endpoints: 2, keys: 20, names: keyNames(20), rounds: 2,
			each: 20 * time.Millisecond, dir: t.TempDir(), alone: alone}
		s := &subject{row: row{System: "erpc"}}
		if !alone {
			if err := s.open(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		for range c.rounds {
			if err := s.round(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			if (s.children == nil) != alone || (s.clients == nil) != alone {
				t.Errorf("alone %v: %v, %v are left after a turn", alone, s.children, s.clients)
			}
		}
		if len(s.puts.full) != c.rounds || s.gets.half[1].PerSecond == 0 {
			t.Errorf("alone %v: %+v, %+v", alone, s.puts, s.gets)
		}
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}
}

// clockwork is a clock that goes on only by naps, each of which takes no time, and by jumps.
type clockwork struct {
	at   atomic.Int64
	naps atomic.Int64
	last int64         // the number of naps after which all is over
	over chan struct{} // closed then
}

func (c *clockwork) clock() clock {
	return clock{func() monotime.Time { return monotime.Time(c.at.Load()) }, func(d time.Duration) {
		c.at.Add(int64(d))
		if c.naps.Add(1) == c.last {
			close(c.over)
		}
	}}
}

// TestOpenLoop: as many requests begin as the rate says, whether those before have ended or not,
// and their times are those from when they were due.
func TestOpenLoop(t *testing.T) {
	const rate, each = 10_000, 100 * time.Millisecond
	var dry clockwork
	due := make(chan monotime.Time, mostDue)
	if err := dry.clock().feed(rate, 0, monotime.Time(each), due); err != nil {
		t.Fatal(err)
	}
	want := int64(len(due))
	if want < 900 || want > 1100 || dry.naps.Load() != want-1 { // the first one is due at once
		t.Fatalf("%d requests, %d naps: want about 1000", want, dry.naps.Load())
	}
	before := monotime.Time(-1)
	for at := range due {
		if at <= before || at >= monotime.Time(each) {
			t.Fatalf("due at %d, after %d", at, before)
		}
		before = at
	}
	c := clockwork{last: want - 1, over: make(chan struct{})}
	first := true
	g := &goroutines{clock: c.clock(), callers: []caller{
		func(context.Context, bool, string, []byte) error {
			if first { // all others are due meanwhile
				<-c.over
				c.at.Store(int64(2 * each))
			}
			first = false
			return nil
		}}}
	d, err := g.run(t.Context(), &job{names: keyNames(1), each: each, rate: rate})
	if err != nil || d.hist.TotalCount() != want {
		t.Errorf("%d requests, want %d: %v", d.hist.TotalCount(), want, err)
	}
	if least := d.hist.Min(); least < int64(each)*98/100 { // the histogram has two digits
		t.Errorf("one took %d ns: it was due long before", least)
	}
	if d.took != 2*each {
		t.Errorf("the last one ended after %v, want %v", d.took, 2*each)
	}
}

// TestBehind: an open loop that the system cannot follow fails.
func TestBehind(t *testing.T) {
	var c clockwork
	err := c.clock().feed(1e9, 0, monotime.Time(time.Hour), make(chan monotime.Time, 10))
	if !errors.Is(err, errBehind) {
		t.Error(err)
	}
}

// TestFailing: the error of a request ends the job.
func TestFailing(t *testing.T) {
	bad := errors.New("bad")
	call := func(context.Context, bool, string, []byte) error { return bad }
	g := &goroutines{callers: []caller{call, call}, clock: wall}
	for _, rate := range []float64{0, 1000} {
		if _, err := g.run(t.Context(), &job{names: keyNames(1), each: 50 * time.Millisecond,
			rate: rate}); !errors.Is(err, bad) {
			t.Errorf("rate %v: %v", rate, err)
		}
	}
	if err := g.fill(t.Context(), keyNames(10)); !errors.Is(err, bad) {
		t.Error(err)
	}
}

// TestUsage: bad flags are refused.
func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"-keys=0"}, {"-each=1h"}, {"-nonsense"},
		{"-gc-heap=-1"}, {"load", "-gc-heap=-1"}, {"load", "-systems=nobody"},
		{"load", "-systems=least@/no/such/program"}, {"load", "-systems=@"},
		{"load", "-clients=0"}, {"load", "-endpoints=65"}} {
		var out, progress bytes.Buffer
		if err := run(t.Context(), args, &out, &progress); err == nil || out.Len() > 0 {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// TestHeap: members have the least heap of the program that starts them, and none without one.
func TestHeap(t *testing.T) {
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(-1)
	t.Cleanup(func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	})
	t.Setenv(leastHeapEnv, "")
	for _, c := range []struct {
		mib  int
		some bool
	}{{0, false}, {32, true}} {
		stop, err := keepHeap(c.mib)
		if err != nil {
			t.Fatal(err)
		}
		stop()
		end := keepMembersHeap()
		if some := debug.SetMemoryLimit(-1) != limit; some != c.some {
			t.Errorf("%d MiB: a least heap is %v", c.mib, some)
		}
		end()
		if p := debug.SetGCPercent(gcPercent); p != gcPercent {
			t.Errorf("%d MiB: GOGC %d", c.mib, p)
		}
	}
}

// TestRatios: each turn is compared with the same turn, and each system with the last one that is
// as durable.
func TestRatios(t *testing.T) {
	made := func(system string, durable bool, rates ...float64) *subject {
		s := &subject{row: row{System: system, Durable: durable}}
		for _, r := range rates {
			s.puts.full = append(s.puts.full, kind{PerSecond: r})
			s.gets.full = append(s.gets.full, kind{PerSecond: r * r})
			s.puts.half = append(s.puts.half, kind{P50: 2, P99: 2 * r})
			s.gets.half = append(s.gets.half, kind{P50: 3, P99: 9 * r})
		}
		return s
	}
	a, b := made("a", false, 6, 20, 12), made("b", false, 3, 5, 2)
	disk := made("disk", true, 1, 2, 3)
	ratiosOf([]*subject{a, b, disk})
	span := func(median, least, most float64) lab.Ratio {
		return lab.Ratio{Median: median, Least: least, Most: most}
	}
	same := span(1, 1, 1)
	for _, c := range []struct {
		of   *subject
		want ratios
	}{{a, ratios{GetPut: span(12, 6, 20), TailPut: span(12, 6, 20), TailGet: span(36, 18, 60),
		Peer: "b", PutPeer: span(4, 2, 6), GetPeer: span(16, 4, 36)}},
		{b, ratios{GetPut: span(3, 2, 5), TailPut: span(3, 2, 5), TailGet: span(9, 6, 15),
			Peer: "b", PutPeer: same, GetPeer: same}},
		{disk, ratios{GetPut: span(2, 1, 3), TailPut: span(2, 1, 3), TailGet: span(6, 3, 9),
			Peer: "disk", PutPeer: same, GetPeer: same}}} {
		if got := c.of.row.Ratios; got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.of.row.System, got, c.want)
		}
	}
}

// TestClockGoesOn: a clock that fires before the replica wants to wake is set again.
func TestClockGoesOn(t *testing.T) {
	s, err := newStore()
	if err != nil {
		t.Fatal(err)
	}
	first := &start{ID: 1, Members: map[uint64]string{1: s.addr()}}
	if err := s.start(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	set := false
	for range 3 { // it may fire meanwhile
		s.clock.Stop()
		s.wake()
		set = set || s.clock.Stop()
	}
	if !set {
		t.Error("the clock stands still")
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
}
