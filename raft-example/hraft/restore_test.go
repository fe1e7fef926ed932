package hraft

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/userspace-rpc/erpc/erpc"
)

// leaps is a pair of transports with a clock that a test sets forward, and a Timeout that no test
// waits for.
type leaps struct {
	t        *testing.T
	from, to *Transport
	ahead    atomic.Int64
}

const (
	longTimeout = 10 * time.Minute
	day         = 24 * time.Hour
)

func newLeaps(t *testing.T) *leaps {
	t.Helper()
	l := &leaps{t: t}
	began := time.Now()
	cfg := Config{Timeout: longTimeout}
	cfg.Erpc.Simulation.Clock = func() erpc.Time {
		return erpc.Time(time.Second + time.Since(began) + time.Duration(l.ahead.Load()))
	}
	cfg.Erpc.Timing = erpc.Timing{FailureTimeout: day, Heartbeat: day / 4}
	l.from, l.to = pairWith(t, cfg)
	return l
}

// leap sets the clock forward, and returns when both loops have begun a pass since.
func (l *leaps) leap(d time.Duration) {
	l.ahead.Add(int64(d))
	for _, t := range []*Transport{l.from, l.to} {
		passed := make(chan struct{})
		err := t.rpc.Post(func(r *erpc.Rpc) {
			if _, err := r.AfterFunc(0, func() { close(passed) }); err != nil {
				l.t.Error(err)
			}
		})
		if err != nil {
			l.t.Error(err)
			return
		}
		<-passed
	}
}

// asked asks in the loop of the called side.
func (l *leaps) asked(ok func() bool) bool {
	answer := make(chan bool, 1)
	if err := l.to.rpc.Post(func(*erpc.Rpc) { answer <- ok() }); err != nil {
		l.t.Error(err)
		return true
	}
	return <-answer
}

// until asks until ok.
func (l *leaps) until(ok func() bool) {
	for !l.asked(ok) {
		runtime.Gosched()
	}
}

// TestLongRestore: the receiver restores a snapshot for longer than Timeout, which an RPC without
// an answer measures. Its size allows for that.
func TestLongRestore(t *testing.T) {
	l := newLeaps(t)
	from, to := l.from, l.to
	if a, b := from.patience(1), from.patience(10<<20); a != longTimeout || b != 40*longTimeout {
		t.Errorf("a snapshot of a byte may stand still for %v, one of 10 MiB for %v", a, b)
	}
	data := bytes.Repeat([]byte("x"), 10<<20)
	go func() {
		r := <-to.Consumer()
		if n, err := io.Copy(io.Discard, r.Reader); n != int64(len(data)) {
			t.Error(n, err)
		}
		l.until(func() bool { // the sender has sent all, and waits
			for _, s := range to.snapshots {
				s.mu.Lock()
				defer s.mu.Unlock()
				return s.last != nil
			}
			return false
		})
		for range 2 { // the follower restores its state
			ended := make(chan error)
			go func() {
				ended <- from.RequestVote("", to.LocalAddr(), &raft.RequestVoteRequest{},
					new(raft.RequestVoteResponse))
			}()
			<-to.Consumer()
			l.leap(longTimeout)
			if err := <-ended; !errors.Is(err, erpc.ErrDeadline) {
				t.Errorf("a call without an answer ends with %v", err)
			}
		}
		l.until(func() bool { return len(to.snapshots) == 0 }) // nothing more is to come
		r.Respond(&raft.InstallSnapshotResponse{Success: true}, nil)
	}()
	var resp raft.InstallSnapshotResponse
	err := from.InstallSnapshot("", to.LocalAddr(),
		&raft.InstallSnapshotRequest{Size: int64(len(data))}, &resp, bytes.NewReader(data))
	if err != nil || !resp.Success {
		t.Errorf("%v, %+v", err, resp)
	}
}

// TestSilentSender: the reader of a snapshot whose sender has fallen silent gets an error, after
// Timeout and not before. A reader that takes its time is not the sender's silence.
func TestSilentSender(t *testing.T) {
	l := newLeaps(t)
	source, feed := io.Pipe()
	ended := make(chan error)
	go func() {
		args := &raft.InstallSnapshotRequest{Size: 2 * pieceSize}
		var resp raft.InstallSnapshotResponse
		ended <- l.from.InstallSnapshot("", l.to.LocalAddr(), args, &resp, source)
	}()
	r := <-l.to.Consumer()
	if _, err := feed.Write(make([]byte, pieceSize)); err != nil {
		t.Fatal(err)
	}
	one := func() (s *stream) {
		for _, s = range l.to.snapshots {
		}
		return s
	}
	l.until(func() bool { return one().unread == 1 })
	l.leap(longTimeout - time.Second) // it is not read yet
	l.leap(longTimeout / 2)
	if n, err := io.CopyN(io.Discard, r.Reader, pieceSize); n != pieceSize {
		t.Fatal(n, err)
	}
	l.until(func() bool { return one().unread == 0 })
	l.leap(longTimeout / 2)
	if !l.asked(func() bool { return one() != nil }) {
		t.Fatal("the stream has ended before its time")
	}
	l.leap(longTimeout / 2)
	if n, err := io.Copy(io.Discard, r.Reader); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%d bytes, %v", n, err)
	}
	l.until(func() bool { return one() == nil })
	if err := feed.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the sender: %v", err)
	}
}
