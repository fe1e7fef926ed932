package hraft

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/userspace-rpc/erpc/erpc"
)

// pair is a transport that calls and one that a test answers for.
func pair(t *testing.T) (from, to *Transport) {
	t.Helper()
	return pairWith(t, Config{Timeout: 10 * time.Second})
}

func pairWith(t *testing.T, cfg Config) (from, to *Transport) {
	t.Helper()
	cfg.Erpc.Wait, cfg.Erpc.NoHugepages = erpc.WaitSleep, true
	var list [2]*Transport
	for i := range list {
		tr, err := NewUDPTransport("127.0.0.1:0", cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := tr.Close(); err != nil {
				t.Error(err)
			}
		})
		list[i] = tr
	}
	return list[0], list[1]
}

// TestCalls: each kind of RPC arrives as it was sent, and its answer or error comes back.
func TestCalls(t *testing.T) {
	from, to := pair(t)
	go func() {
		for range 3 {
			r := <-to.Consumer()
			switch c := r.Command.(type) {
			case *raft.RequestVoteRequest:
				r.Respond(&raft.RequestVoteResponse{Term: c.Term + 1, Granted: true}, nil)
			case *raft.RequestPreVoteRequest:
				r.Respond(&raft.RequestPreVoteResponse{Term: c.Term + 2}, nil)
			case *raft.TimeoutNowRequest:
				r.Respond(nil, errors.New("not today"))
			}
		}
	}()
	var vote raft.RequestVoteResponse
	if err := from.RequestVote("", to.LocalAddr(), &raft.RequestVoteRequest{Term: 7},
		&vote); err != nil || vote.Term != 8 || !vote.Granted {
		t.Error(err, vote)
	}
	var pre raft.RequestPreVoteResponse
	if err := from.RequestPreVote("", to.LocalAddr(), &raft.RequestPreVoteRequest{Term: 7},
		&pre); err != nil || pre.Term != 9 {
		t.Error(err, pre)
	}
	var now raft.TimeoutNowResponse
	err := from.TimeoutNow("", to.LocalAddr(), &raft.TimeoutNowRequest{}, &now)
	if !errors.Is(err, ErrRemote) || !strings.Contains(err.Error(), "not today") {
		t.Error(err)
	}
	if got := from.DecodePeer(from.EncodePeer("x", to.LocalAddr())); got != to.LocalAddr() {
		t.Error(got)
	}
}

// TestHeartbeat: a heartbeat goes to its handler, past the consumer.
func TestHeartbeat(t *testing.T) {
	from, to := pair(t)
	to.SetHeartbeatHandler(func(r raft.RPC) {
		r.Respond(&raft.AppendEntriesResponse{Term: 3, Success: true}, nil)
	})
	var resp raft.AppendEntriesResponse
	args := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{Addr: []byte("a")}, Term: 3}
	if err := from.AppendEntries("", to.LocalAddr(), args, &resp); err != nil || !resp.Success {
		t.Error(err, resp)
	}
}

// TestPipeline: entries arrive in order, and futures come back in order.
func TestPipeline(t *testing.T) {
	const count = 300
	from, to := pair(t)
	order := make(chan uint64, count)
	go func() {
		for range count {
			r := <-to.Consumer()
			c := r.Command.(*raft.AppendEntriesRequest)
			order <- c.PrevLogEntry
			r.Respond(&raft.AppendEntriesResponse{LastLog: c.PrevLogEntry, Success: true}, nil)
		}
	}()
	p, err := from.AppendEntriesPipeline("", to.LocalAddr())
	if err != nil {
		t.Fatal(err)
	}
	var sender sync.WaitGroup
	sender.Go(func() {
		for i := range count {
			size := 10
			if i%3 == 0 {
				size = 50_000 // several packets: the next ones overtake it
			}
			req := &raft.AppendEntriesRequest{PrevLogEntry: uint64(i) + 1,
				Entries: []*raft.Log{{Data: make([]byte, size)}}}
			if _, err := p.AppendEntries(req, new(raft.AppendEntriesResponse)); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range uint64(count) {
		f := <-p.Consumer()
		if err := f.Error(); err != nil || f.Response().LastLog != i+1 ||
			f.Request().PrevLogEntry != i+1 || f.Start().IsZero() {
			t.Fatal(i, err, f.Response())
		}
		if got := <-order; got != i+1 {
			t.Fatalf("entry %d arrived in place %d", got, i+1)
		}
	}
	sender.Wait() // the last answer may be here before the call that sent its request has returned
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	_, err = p.AppendEntries(&raft.AppendEntriesRequest{}, nil)
	if !errors.Is(err, raft.ErrPipelineShutdown) {
		t.Error(err)
	}
}

// TestSnapshot: a snapshot is streamed, also one that Raft refuses half-way, and one whose
// source ends too early.
func TestSnapshot(t *testing.T) {
	from, to := pair(t)
	data := bytes.Repeat([]byte("snapshot "), 200_000)
	args := &raft.InstallSnapshotRequest{Term: 4, Size: int64(len(data))}
	got := make(chan []byte, 1)
	go func() {
		r := <-to.Consumer()
		b, err := io.ReadAll(r.Reader)
		got <- b
		r.Respond(&raft.InstallSnapshotResponse{Term: 4, Success: true}, err)
		r = <-to.Consumer()
		_, _ = io.CopyN(io.Discard, r.Reader, 1000)
		r.Respond(nil, errors.New("disk full"))
	}()
	var resp raft.InstallSnapshotResponse
	if err := from.InstallSnapshot("", to.LocalAddr(), args, &resp,
		bytes.NewReader(data)); err != nil || !resp.Success || !bytes.Equal(<-got, data) {
		t.Error(err, resp)
	}
	if err := from.InstallSnapshot("", to.LocalAddr(), args, &resp,
		bytes.NewReader(data)); err == nil {
		t.Error("a refused snapshot gave no error")
	}
	if err := from.InstallSnapshot("", to.LocalAddr(), args, &resp,
		bytes.NewReader(data[:10])); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}

// TestMalformed: bytes that are no request are refused.
func TestMalformed(t *testing.T) {
	from, to := pair(t)
	for typ := uint8(typeAppend); typ <= typePipeOpen; typ++ {
		for _, b := range [][]byte{nil, {0xff}, bytes.Repeat([]byte{0xff}, 40),
			bytes.Repeat([]byte{0x81}, 100)} {
			got := make(chan error, 1)
			from.send(to.LocalAddr(), typ, b, from.cfg.Timeout, func(answer []byte, err error) {
				if err == nil {
					err = parse(answer, new(struct{}))
				}
				got <- err
			})
			if err := <-got; !errors.Is(err, ErrRemote) || !strings.Contains(err.Error(), "malformed") {
				t.Errorf("type %d, %d bytes: %v", typ, len(b), err)
			}
		}
	}
}
