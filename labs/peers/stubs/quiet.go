package stubs

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/userspace-rpc/erpc/labs/peers/echo"
)

// block begins calls whose handlers wait until the load ends.
func (r *run) block() {
	in := &bytesValue{Value: echo.Payload(r.BesideSize)}
	for range r.Beside {
		go func() {
			// It ends with the load, or with the error that a library has for too many calls.
			_ = r.conn.Invoke(r.ctx, blockMethod, in, new(bytesValue))
		}()
	}
}

// idle opens streams, and has each echo a message, so that it is known to be open.
func (r *run) idle() error {
	in := &bytesValue{Value: echo.Payload(r.Size)}
	list := make([]grpc.ClientStream, r.Callers)
	for i := range list {
		s, err := r.conn.NewStream(r.ctx, &chatDesc, prefix+chatDesc.StreamName)
		if err != nil {
			return err
		}
		if err := s.SendMsg(in); err != nil {
			return err
		}
		list[i] = s
	}
	for i, s := range list {
		out := new(bytesValue)
		if err := s.RecvMsg(out); err != nil {
			return fmt.Errorf("stream %d: %w", i, err)
		}
		if err := echo.Check(in.Value, nil, out.Value, true); err != nil {
			return err
		}
		r.result.All++
		// Someone waits for what the server says, as programs with such streams do.
		go func() { _ = s.RecvMsg(new(bytesValue)) }()
	}
	r.result.Ops = r.result.All
	return nil
}

// pass waits for d, or until ctx ends.
func pass(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// sameCount is an error if a server has counted other than n messages.
func sameCount(answer []byte, n int64) error {
	if len(answer) != 8 {
		return fmt.Errorf("an answer of %d bytes, want 8", len(answer))
	}
	if got := int64(binary.LittleEndian.Uint64(answer)); got != n {
		return fmt.Errorf("%d messages came, want %d", got, n)
	}
	return nil
}
