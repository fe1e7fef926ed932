package node

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/raft-example/replica"
	pb "go.etcd.io/raft/v3/raftpb"
)

// slowDisk only tells how slow it is.
type slowDisk struct{ pace }

func (*slowDisk) Raise(uint8)                                                   {}
func (*slowDisk) Save(*pb.HardState, []*pb.Entry, *pb.Snapshot, func(error))    {}
func (*slowDisk) Prepare(*pb.Snapshot, func(error))                             {}
func (*slowDisk) Compact(*pb.Snapshot, *pb.HardState, []*pb.Entry, func(error)) {}
func (*slowDisk) SavePeers(map[uint64]uint64, func(error))                      {}

func (d *slowDisk) SyncTime() time.Duration { return d.typical() }

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
