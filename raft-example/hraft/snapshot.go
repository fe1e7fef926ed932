package hraft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"github.com/userspace-rpc/erpc/erpc"
)

// pieceSize is the bytes of a snapshot in one RPC.
const pieceSize = 256 << 10

// maxSnapshots bounds the snapshots that come in at once.
const maxSnapshots = 16

// timeoutScale is the size for which a snapshot has one Config.Timeout, as in
// raft.NetworkTransport.
const timeoutScale = raft.DefaultTimeoutScale

// patience is how long a snapshot of this size may stand still.
func (t *Transport) patience(size int64) time.Duration {
	most := int64(math.MaxInt64 / t.cfg.Timeout)
	return t.cfg.Timeout * time.Duration(min(max(size/timeoutScale, 1), most))
}

// InstallSnapshot implements raft.Transport. Each piece that the receiver has read begins the
// deadline anew. So does the last one, after which the receiver restores its state.
func (t *Transport) InstallSnapshot(server raft.ServerID, to raft.ServerAddress,
	args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	to = t.address(server, to)
	id := binary.LittleEndian.AppendUint64(nil, newNumber())
	var ok struct{}
	if err := t.call(to, typeSnapOpen, id[:8:8], args, &ok); err != nil {
		return err
	}
	patience := t.patience(args.Size)
	buf := make([]byte, 16, 16+pieceSize)
	copy(buf, id)
	for sent := int64(0); sent < args.Size; {
		n, err := io.ReadFull(data, buf[16:16+min(pieceSize, args.Size-sent)])
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return fmt.Errorf("hraft: the snapshot ends after %d of %d bytes: %w", sent+int64(n),
				args.Size, err)
		}
		binary.LittleEndian.PutUint64(buf[8:], uint64(sent))
		if err := t.roundTrip(to, typeSnapData, append([]byte(nil), buf[:16+n]...), patience,
			&ok); err != nil {
			return err
		}
		sent += int64(n)
	}
	b, err := encode(id[:8:8], struct{}{})
	if err != nil {
		return err
	}
	return t.roundTrip(to, typeSnapEnd, b, patience, resp)
}

// stream is a snapshot that comes in. A goroutine of its own writes to the pipe that
// Raft reads from.
type stream struct {
	t      *Transport
	id     uint64
	pipe   *io.PipeWriter
	read   *io.PipeReader
	pieces chan piece
	size   int64

	// The loop's.
	got    int64         // bytes given to pieces
	unread int           // pieces that Raft has not read
	silent *erpc.Timer   // runs while there are none
	over   chan struct{} // closed when nothing has come for the timeout

	mu     sync.Mutex
	answer []byte          // of Raft
	last   *erpc.ReqHandle // waits for it
}

type piece struct {
	req  erpc.ReqHandle
	data []byte
}

// onSnapshot handles the three requests of a snapshot, in the loop.
func (t *Transport) onSnapshot(req erpc.ReqHandle, data []byte) {
	if len(data) < 8 {
		_ = req.RespondBytes(answer(nil, ErrMalformed))
		return
	}
	id := binary.LittleEndian.Uint64(data)
	s := t.snapshots[id]
	switch typ := req.Type(); {
	case typ == typeSnapOpen && s == nil:
		t.openSnapshot(id, req, data[8:])
		return
	case typ == typeSnapData && s != nil && len(data) > 16:
		at := int64(binary.LittleEndian.Uint64(data[8:]))
		if n := int64(len(data) - 16); at == s.got && n <= s.size-s.got && len(s.pieces) < cap(s.pieces) {
			s.got += n
			s.unread++
			_ = s.silent.Stop() // this is the loop
			s.pieces <- piece{req, append([]byte(nil), data[16:]...)}
			return
		}
	case typ == typeSnapEnd && s != nil:
		s.wait(req)
		return
	}
	_ = req.RespondBytes(answer(nil, ErrMalformed))
}

func (t *Transport) openSnapshot(id uint64, req erpc.ReqHandle, data []byte) {
	args := new(raft.InstallSnapshotRequest)
	in := t.incoming(req, data, args)
	switch {
	case in == nil:
		return
	case args.Size < 0 || len(t.snapshots) >= maxSnapshots:
		_ = req.RespondBytes(answer(nil, erpc.ErrExhausted))
		return
	}
	r, w := io.Pipe()
	s := &stream{t: t, id: id, pipe: w, read: r, pieces: make(chan piece, 4), size: args.Size,
		over: make(chan struct{})}
	var err error
	if s.silent, err = t.rpc.AfterFunc(t.cfg.Timeout, func() { close(s.over) }); err != nil {
		_ = req.RespondBytes(answer(nil, err))
		return
	}
	t.snapshots[id] = s
	in.snap, in.rpc.Reader = s, io.LimitReader(r, args.Size)
	t.wg.Go(s.write)
	_ = req.RespondBytes(answer(struct{}{}, nil))
	t.pass(in)
}

// write gives the pieces to Raft, and answers each when it is read. It ends when nothing has come
// for the timeout: the sender is done, or fell silent. A reader or writer then gets an error.
func (s *stream) write() {
	defer s.forget()
	done := make(chan struct{})
	defer close(done)
	go func() { // a write ends only when it is read
		select {
		case <-s.t.closing:
			_ = s.read.CloseWithError(ErrShutdown)
		case <-done:
		}
	}()
	for {
		select {
		case <-s.t.closing:
			return
		case <-s.over:
			_ = s.pipe.CloseWithError(io.ErrUnexpectedEOF)
			return
		case p := <-s.pieces:
			_, err := s.pipe.Write(p.data)
			s.wasRead(p.req, answer(struct{}{}, err))
		}
	}
}

// wasRead answers a piece, and waits for the next one.
func (s *stream) wasRead(req erpc.ReqHandle, b []byte) {
	_ = s.t.rpc.Post(func(*erpc.Rpc) { // a closed Rpc has nobody to answer
		_ = req.RespondBytes(b)
		if s.unread--; s.unread == 0 {
			_ = s.silent.Reset(s.t.cfg.Timeout)
		}
	})
}

// forget ends the stream's place in the table.
func (s *stream) forget() {
	_ = s.t.rpc.Post(func(*erpc.Rpc) { delete(s.t.snapshots, s.id) }) // a closed Rpc has no table
}

// end ends the stream with an error of this side.
func (s *stream) end(err error) { s.result(answer(nil, err)) }

// result takes Raft's answer: the caller that waits for it gets it, and pieces that come are
// refused.
func (s *stream) result(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = b
	_ = s.read.CloseWithError(io.ErrClosedPipe)
	if s.last != nil {
		s.t.respond(*s.last, b)
		s.last = nil
	}
}

// wait answers req with Raft's answer, now or later.
func (s *stream) wait(req erpc.ReqHandle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answer != nil {
		_ = req.RespondBytes(s.answer)
		return
	}
	s.last = &req
}
