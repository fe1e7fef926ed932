package grpcerpc

import (
	"context"
	"errors"
	"unicode/utf8"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/grpcerpc/internal/frame"
)

var (
	errFrames  = status.Error(codes.Internal, "grpcerpc: malformed frames")
	errClosing = status.Error(codes.Canceled, "grpc: the client connection is closing")
)

// toFrame returns a status as it travels.
func toFrame(st *status.Status) (f frame.Status) {
	if st.Code() == codes.OK {
		return f
	}
	f.Code, f.Text = uint64(st.Code()), st.Message()
	if !utf8.ValidString(f.Text) {
		f.Text = string([]rune(f.Text)) // a replacement for each byte that is wrong
	}
	if p := st.Proto(); len(p.GetDetails()) > 0 {
		f.Details, _ = proto.Marshal(p) // a status of invalid text travels without details
	}
	return f
}

// fromFrame returns a status that was received; nil for success.
func fromFrame(f *frame.Status) error {
	if f.Code == 0 {
		return nil
	}
	code := codes.Code(min(f.Code, 1<<31))
	if len(f.Details) > 0 {
		p := new(spb.Status)
		if proto.Unmarshal(f.Details, p) == nil && p.GetCode() == int32(code) {
			return status.ErrorProto(p)
		}
	}
	return status.Error(code, f.Text)
}

// handlerStatus is the status of what a handler returned.
func handlerStatus(err error) *status.Status {
	if st, ok := status.FromError(err); ok {
		return st
	}
	return status.FromContextError(err)
}

// callError is the status of an error of erpc or of a context.
func callError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	code := codes.Code(erpc.CodeOf(err))
	if errors.Is(err, erpc.ErrClosed) { // the connection was closed under the call
		code = codes.Unavailable
	}
	return status.Error(code, err.Error())
}

// credsError is the status of an error of credentials; of one that is no status, with a code.
func credsError(err error, code codes.Code) error {
	if _, ok := status.FromError(err); ok {
		return restricted(err, "transport: received per-RPC creds error with illegal status")
	}
	return status.Errorf(code, "transport: per-RPC creds failed due to error: %v", err)
}
