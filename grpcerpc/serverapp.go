package grpcerpc

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// receive waits for the next message of a client.
func (st *serverStream) receive() (m message, err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for {
		m, ok := st.in.take()
		if st.in.ask() {
			st.mu.Unlock()
			st.say()
			st.mu.Lock()
			if !ok {
				continue
			}
		}
		switch {
		case ok:
			return m, nil
		case st.err != nil:
			return m, st.err
		case st.halfClosed && st.in.partial:
			return m, errFrames
		case st.halfClosed:
			return m, io.EOF
		}
		st.changed.Wait()
	}
}

// Context implements grpc.ServerStream, as the following methods do.
func (st *serverStream) Context() context.Context { return st.ctx }

func (st *serverStream) SetHeader(md metadata.MD) error {
	if err := checkMD(md); err != nil {
		return err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.headerSent {
		return errHeaderSent
	}
	st.header = metadata.Join(st.header, md)
	return nil
}

func (st *serverStream) SendHeader(md metadata.MD) error {
	if err := st.SetHeader(md); err != nil {
		return err
	}
	st.mu.Lock()
	if !st.ended {
		st.putHeader(true)
	}
	st.mu.Unlock()
	st.say()
	return nil
}

func (st *serverStream) SetTrailer(md metadata.MD) { _ = st.setTrailer(md) }

func (st *serverStream) setTrailer(md metadata.MD) error {
	if err := checkMD(md); err != nil {
		return err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.trailer = metadata.Join(st.trailer, md)
	return nil
}

func (st *serverStream) SendMsg(m any) error {
	memory := getBuffer()
	data, err := st.coding.encode((*memory)[:0], m, st.conn.server.opts.maxSend)
	if *memory = data; err != nil {
		return st.spoil(err)
	}
	size := len(data)
	ok, first, err := st.put(memory)
	if !ok {
		return err
	}
	if first {
		st.watch.outHeader(st.name, "", st.header, st.conn.peer) // it does not change any more
	}
	st.watch.outPayload(m, size)
	st.say()
	return nil
}

// put puts a message into the outbox, once there is so little that the handler need not wait. Ok
// says that it is there, and first that the header went before it.
func (st *serverStream) put(memory *[]byte) (ok, first bool, err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for st.err == nil && !st.ended && st.out.queued > maxQueued {
		st.changed.Wait()
	}
	if st.err != nil || st.ended {
		return false, false, st.err
	}
	first = !st.headerSent
	st.putHeader(true)
	st.out.putMessage(st.coding.kind(), memory)
	return true, first, nil
}

func (st *serverStream) RecvMsg(m any) error {
	msg, err := st.receive()
	if errors.Is(err, io.EOF) && !st.received && st.method.takesOne() {
		return st.spoil(status.Error(codes.Internal,
			"cardinality violation: received no request message from non-client-streaming RPC"))
	}
	if err != nil {
		return err
	}
	st.received = true
	size := len(msg.data)
	err = st.coding.decode(msg.data, msg.compressed, st.conn.server.opts.maxRecv, m)
	msg.free()
	if err != nil {
		return st.spoil(err)
	}
	st.watch.inPayload(m, size)
	return nil
}

// spoil ends the stream for its client with an error of SendMsg or RecvMsg, whatever the handler
// returns, as grpc-go does.
func (st *serverStream) spoil(err error) error {
	st.mu.Lock()
	st.end(err)
	if st.err == nil {
		st.err = err
	}
	st.mu.Unlock()
	st.cancel()
	st.say()
	return err
}

// transportStream is the grpc.ServerTransportStream of a stream.
type transportStream struct{ *serverStream }

func (t transportStream) Method() string                  { return t.name }
func (t transportStream) SetTrailer(md metadata.MD) error { return t.setTrailer(md) }
