package node

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/raft-example/replica"
	pb "go.etcd.io/raft/v3/raftpb"
)

// slowDisk only tells how slow it is.
type slowDisk struct{ pace }

func (*slowDisk) Raise(uint8)                                                   {}
func (*slowDisk) Save(*pb.HardState, []*pb.Entry, *pb.Snapshot, func(error))    {}
func (*slowDisk) Prepare(uint64) Sink                                           { return nil }
func (*slowDisk) Receive(uint64) Sink                                           { return nil }
func (*slowDisk) Open(*pb.Snapshot, func(Stream, error))                        {}
func (*slowDisk) Compact(*pb.Snapshot, *pb.HardState, []*pb.Entry, func(error)) {}
func (*slowDisk) SavePeers(map[uint64]uint64, func(error))                      {}

func (d *slowDisk) SyncTime() time.Duration { return d.typical() }
func (d *slowDisk) SyncP99() time.Duration  { return d.p99() }

// TestSlowDiskWarns: a disk that is slow for the election timeout is worth a line of the log a
// minute, which says what tick would do.
func TestSlowDiskWarns(t *testing.T) {
	var log bytes.Buffer
	now := monotime.Time(1)
	d := &slowDisk{}
	n, err := New(Config{Config: replica.Config{ID: 1},
		Start: replica.Boot(map[uint64]string{1: "1", 2: "2"}), Disk: d,
		Clock: func() monotime.Time { return now }, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	pass := func(d time.Duration) int {
		for end := now.Add(d); now < end; now = now.Add(10 * time.Millisecond) {
			n.checkDisk()
		}
		return strings.Count(log.String(), "too slow")
	}
	for range 33 {
		d.add(90 * time.Millisecond)
	}
	if got := pass(2 * time.Minute); got != 0 {
		t.Errorf("%d warnings for 90 ms", got)
	}
	for range 16 {
		d.add(300 * time.Millisecond)
	}
	if got := pass(time.Minute); got != 0 {
		t.Errorf("%d warnings, though most writes take 90 ms", got)
	}
	d.add(300 * time.Millisecond)
	if got := pass(3*time.Minute - time.Second); got != 3 ||
		!strings.Contains(log.String(), "tick=120ms") {
		t.Errorf("%d warnings in 3 minutes: %s", got, log.String())
	}
}

// TestHungDiskWarns: a write that takes longer than an election timeout is told once while it
// lasts, and once when it has ended; the status tells how long it has taken.
func TestHungDiskWarns(t *testing.T) {
	var log bytes.Buffer
	now := monotime.Time(1)
	d := &slowDisk{}
	n, err := New(Config{Config: replica.Config{ID: 1},
		Start: replica.Boot(map[uint64]string{1: "1"}), Disk: d,
		Clock: func() monotime.Time { return now }, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	pass := func(d time.Duration) {
		for end := now.Add(d); now < end; now = now.Add(10 * time.Millisecond) {
			n.rep.Tick(now)
			n.checkDisk()
		}
	}
	n.rep.Campaign()
	n.rep.Process()
	if pass(200 * time.Millisecond); log.Len() > 0 {
		t.Errorf("told within an election timeout: %s", log.String())
	}
	pass(3 * time.Second)
	if strings.Count(log.String(), "hangs") != 1 || n.rep.WriteFor() < 3*time.Second {
		t.Errorf("a write has taken %v: %s", n.rep.WriteFor(), log.String())
	}
	n.rep.Saved(nil)
	pass(time.Second)
	if strings.Count(log.String(), "goes on") != 1 || strings.Count(log.String(), "hangs") != 1 {
		t.Error(log.String())
	}
}

// TestStalled: a process that was stopped says so, and that its disk hangs only if it does so for
// as long as any other must.
func TestStalled(t *testing.T) {
	var log bytes.Buffer
	now := monotime.Time(1)
	n, err := New(Config{Config: replica.Config{ID: 1},
		Start: replica.Boot(map[uint64]string{1: "1"}), Disk: &slowDisk{},
		Clock: func() monotime.Time { return now }, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	pass := func(d time.Duration) {
		for end := now.Add(d); now < end; {
			now = now.Add(10 * time.Millisecond)
			n.Poll()
		}
	}
	n.rep.Campaign()
	pass(100 * time.Millisecond)
	if !n.rep.Saving() {
		t.Fatal("no write is under way")
	}
	now = now.Add(150 * time.Millisecond)
	if n.Poll(); log.Len() > 0 {
		t.Errorf("told after less than an election timeout: %s", log.String())
	}
	now = now.Add(3 * time.Second)
	pass(10 * time.Millisecond)
	if text := log.String(); strings.Count(text, "stood still") != 1 ||
		!strings.Contains(text, "for=3.01s") || strings.Contains(text, "hangs") {
		t.Errorf("after a stop of 3 s: %s", text)
	}
	pass(400 * time.Millisecond)
	if text := log.String(); strings.Count(text, "stood still") != 1 ||
		strings.Count(text, "hangs") != 1 {
		t.Errorf("the disk hangs, too: %s", text)
	}
}

// TestPaceP99: of a thousand writes, the latest, the ten longest are beyond it.
func TestPaceP99(t *testing.T) {
	var p pace
	if p.p99() != 0 {
		t.Error("of no write it is", p.p99())
	}
	for i := range 5000 {
		p.add(time.Duration(i % 1000))
	}
	if p.p99() != 990 || p.typical() != 1000-17 {
		t.Errorf("one in a hundred takes more than %d, half of the recent ones %d", p.p99(), p.typical())
	}
}

// TestAnswersLost: a client that loses answers again and again does not fill the log.
func TestAnswersLost(t *testing.T) {
	var log strings.Builder
	now := monotime.Time(time.Hour)
	n := &Node{cfg: Config{Clock: func() monotime.Time { return now },
		Logger: slog.New(slog.NewTextHandler(&log, nil))}}
	for range 1000 {
		n.answerLost(erpc.ErrExhausted)
	}
	now = now.Add(refusalsEvery)
	n.answerLost(erpc.ErrExhausted)
	if lines := strings.Count(log.String(), "\n"); lines != 2 {
		t.Errorf("%d lines, want 2", lines)
	}
}
