package node

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/raft-example/replica"
	"github.com/userspace-rpc/erpc/raft-example/wal"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// stuckFolder is a disk on which what is large, or can wait, takes as long as a test wants.
type stuckFolder struct {
	folder
	free chan struct{}
}

func (s *stuckFolder) Raise(uint32) error     { return nil }
func (s *stuckFolder) Save(*wal.Record) error { return nil }
func (s *stuckFolder) Prepare(wal.Origin, uint64) (*wal.Writer, error) {
	<-s.free
	return nil, errStuck
}
func (s *stuckFolder) SavePeers(map[uint64]uint64) error { <-s.free; return nil }
func (s *stuckFolder) Close() error                      { return nil }

var errStuck = errors.New("stuck")

// TestLargeWritesAside: while a snapshot is being written, however long that takes, the loop goes
// on, and so do the writes of the log.
func TestLargeWritesAside(t *testing.T) {
	conn, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	x, err := erpc.NewNexus(erpc.Config{Wait: erpc.WaitSleep, NoHugepages: true})
	if err != nil {
		t.Fatal(err)
	}
	r, err := x.NewRpc(conn)
	if err != nil {
		t.Fatal(err)
	}
	disk := &stuckFolder{free: make(chan struct{})}
	f := &Files{dir: disk, jobs: make(chan job, 4), ended: make(chan struct{}),
		sinks: map[*fileSink]bool{}}
	f.Attach(r)
	var stop atomic.Bool
	ran := make(chan error, 1)
	go func() { ran <- r.Run(stop.Load) }()
	large, small := make(chan error, 2), make(chan error, 3)
	err = r.Post(func(*erpc.Rpc) {
		s := f.Prepare(1 << 30)
		s.Write(make([]byte, 100), func(err error) { large <- err })
		f.SavePeers(nil, func(err error) { large <- err })
		for range 3 {
			f.Save(nil, nil, nil, func(err error) { small <- err })
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		select {
		case err := <-small:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Error("the log waits for the snapshot")
		}
	}
	if len(large) > 0 {
		t.Error("a write has ended that cannot have")
	}
	close(disk.free)
	for range 2 {
		if err := <-large; err != nil && err != errStuck {
			t.Error(err)
		}
	}
	stop.Store(true)
	r.Wake()
	if err := errors.Join(<-ran, r.Close(), x.Close(), f.Close()); err != nil {
		t.Error(err)
	}
}

// TestScrubEnds: a replica whose snapshot is damaged on the disk ends while it runs, and does
// not start again; both times it says what to do.
func TestScrubEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "1")
	conn, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Config: replica.Config{ID: 7}}
	boot := replica.Boot(map[uint64]string{7: conn.LocalAddr().String()})
	files, err := OpenFiles(path, &cfg, boot)
	if err != nil {
		t.Fatal(err)
	}
	n, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	x, err := erpc.NewNexus(erpc.Config{Wait: erpc.WaitSleep, NoHugepages: true})
	if err != nil {
		t.Fatal(err)
	}
	r, err := x.NewRpc(conn)
	if err != nil {
		t.Fatal(err)
	}
	n.Attach(r)
	files.Attach(r)
	name := filepath.Join(path, "snapshot")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	files.Scrub(n, 1)
	err = n.Run(func() bool { return false })
	if err == nil || !strings.Contains(err.Error(), "member remove 7") ||
		!strings.Contains(err.Error(), "new id") {
		t.Errorf("it ended with %v", err)
	}
	for _, f := range []func() error{r.Close, x.Close, files.Close} {
		if err := f(); err != nil {
			t.Error(err)
		}
	}
	if _, err := OpenFiles(path, &cfg, boot); err == nil ||
		!strings.Contains(err.Error(), "member remove 7") {
		t.Errorf("it opens again: %v", err)
	}
}
