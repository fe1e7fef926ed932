package grpcerpc_test

import (
	"context"
	"encoding/binary"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
	"github.com/userspace-rpc/erpc/grpcerpc/internal/frame"
)

// deaf is a rig whose unary handlers do not look at their context, and read their request late.
func deaf(t *testing.T) (r *rig, began chan context.Context, read chan error, release func()) {
	began, read = make(chan context.Context, 1), make(chan error, 1)
	released := make(chan struct{})
	unknown := func(_ any, ss grpc.ServerStream) error {
		began <- ss.Context()
		<-released
		err := ss.RecvMsg(new(pb.HelloRequest))
		read <- err
		return err
	}
	r = newRig(t, nil, grpcerpc.UnknownServiceHandler(unknown))
	return r, began, read, func() { close(released) }
}

// stops checks that Stop does not wait for a handler, that the handler's context ends before, and
// that the request is nobody's then.
func stops(
	t *testing.T, r *rig, at context.Context, read <-chan error, release func(),
) {
	t.Helper()
	until(t, "the connection's end", func() bool { all, _, _ := r.server.Conns(); return all == 0 })
	eventually(t, at.Done(), "the end of the handler's context")
	stopped := make(chan struct{})
	go func() {
		r.server.Stop()
		close(stopped)
	}()
	eventually(t, stopped, "Stop")
	release()
	is(t, "the request", eventually(t, read, "the handler"), codes.Canceled)
}

// TestStopGone: Stop does not wait for a handler whose client has closed before.
func TestStopGone(t *testing.T) {
	r, began, read, release := deaf(t)
	go func() { _ = r.cc.Invoke(t.Context(), "/s/m", &pb.HelloRequest{}, &pb.HelloReply{}) }()
	at := eventually(t, began, "the handler")
	is(t, "close", r.cc.Close(), codes.OK)
	stops(t, r, at, read, release)
}

// TestStopBroken: a connection that ends for what its client did, while the client's session lives,
// ends its calls of one request: their contexts end, and the client learns it.
func TestStopBroken(t *testing.T) {
	r, began, read, release := deaf(t)
	h := newHostile(t, r)
	head := frame.Head{Method: []byte("/s/m")}
	request := head.Append(binary.LittleEndian.AppendUint64(nil, h.token))
	answer := make(chan error, 1)
	go func() {
		_, err := h.Call(t.Context(), frame.TypeUnary, request)
		answer <- err
	}()
	at := eventually(t, began, "the handler")
	got := h.send(frame.Exchange{Token: h.token, Sections: []byte{0xff}})
	if got != codes.Internal {
		t.Errorf("a malformed section: %v", got)
	}
	if got = codes.Code(erpc.CodeOf(eventually(t, answer, "the answer"))); got != codes.Unavailable {
		t.Errorf("the call: %v", got)
	}
	stops(t, r, at, read, release)
}

// TestHostileHeld: of the exchanges that end with their connection, those that were ahead of others
// are answered as such of which nothing was taken, and the one at fault is not.
func TestHostileHeld(t *testing.T) {
	h := newHostile(t, newRig(t, nil))
	ahead := make(chan []byte, 1)
	x := frame.Exchange{Token: h.token, Seq: 1}
	is(t, "the one ahead", h.Start(frame.TypeExchange, x.Append(nil), func(b []byte, _ error) {
		ahead <- slices.Clone(b)
	}), codes.OK)
	bad := frame.Exchange{Token: h.token, Sections: []byte{0xff}}
	b, err := h.Call(within(t), frame.TypeExchange, bad.Append(nil))
	is(t, "the one at fault", err, codes.OK)
	for _, v := range []struct {
		answer  []byte
		untaken bool
	}{{b, false}, {eventually(t, ahead, "the one ahead"), true}} {
		if y, err := frame.ParseReply(v.answer); err != nil || !y.Gone || y.Untaken != v.untaken {
			t.Errorf("%+v, %v, want untaken %v", y, err, v.untaken)
		}
	}
}
