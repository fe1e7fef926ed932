package grpcerpc_test

import (
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
	"github.com/userspace-rpc/erpc/grpcerpc/internal/frame"
)

// unary makes a unary call of an empty message on the connection and returns its code.
func (h *hostile) unary(head frame.Head) codes.Code {
	b, err := h.Call(within(h), frame.TypeUnary,
		head.Append(binary.LittleEndian.AppendUint64(nil, h.token)))
	is(h, "unary", err, codes.OK)
	a, err := frame.ParseAnswer(b)
	is(h, "answer", err, codes.OK)
	return codes.Code(a.Status.Code)
}

// TestHostileAccept: of the compressors that a client says it has, a connection keeps few, which
// calls look through, and names only.
func TestHostileAccept(t *testing.T) {
	seen := make(chan []string, 1)
	h := newHostile(t, newRig(t, nil, grpcerpc.InTapHandle(func(
		ctx context.Context, info *tap.Info) (context.Context, error) {
		seen <- info.Header["grpc-accept-encoding"]
		return ctx, nil
	})))
	commas := strings.Repeat(",", 16<<10-10)
	for _, v := range []struct {
		accept, compressor string
		want               []string
	}{
		{"", "", nil}, {"", "gzip", []string{"gzip"}},
		{"zstd,gzip", "gzip", []string{"zstd,gzip"}}, {"zstd", "gzip", []string{"zstd,gzip"}},
		{commas, "", nil}, {commas, "gzip", []string{"gzip"}},
		{commas + "zstd", "gzip", []string{"zstd,gzip"}},
	} {
		hello := frame.Hello{Version: frame.Version, Accept: v.accept}
		b, err := h.Call(within(t), frame.TypeHello, hello.Append(nil))
		is(t, "hello", err, codes.OK)
		w, err := frame.ParseWelcome(b)
		is(t, "welcome", err, codes.OK)
		h.token = w.Token
		_ = h.unary(frame.Head{Method: []byte("/helloworld.Greeter/SayHello"),
			Compressor: []byte(v.compressor)}) // an empty message is no gzip
		if got := <-seen; !slices.Equal(got, v.want) {
			t.Errorf("%.20q with %q: %.60q", v.accept, v.compressor, got)
		}
	}
}

// TestHostileAuthority: the authority of a call counts as metadata does, and is printable.
func TestHostileAuthority(t *testing.T) {
	r := newRig(t, nil, grpcerpc.MaxHeaderListSize(1000))
	h := newHostile(t, r)
	for _, v := range []struct {
		authority string
		want      codes.Code
	}{
		{"a.example:1", codes.OK}, {"a\nb", codes.Internal}, {"\xff", codes.Internal},
		{strings.Repeat("a", 1000-32-len(":authority")), codes.OK},
		{strings.Repeat("a", 1001-32-len(":authority")), codes.ResourceExhausted},
	} {
		got := h.unary(frame.Head{Method: []byte("/helloworld.Greeter/SayHello"),
			Authority: []byte(v.authority)})
		is(t, "a call", status.Error(got, v.authority), v.want)
		if v.want != codes.OK { // a stream that begins says nothing
			got = h.exchange(frame.Section{Stream: 1, Limit: 1 << 10, Open: &frame.Head{
				Method: []byte("/helloworld.Greeter/Chat"), Authority: []byte(v.authority)}})
			is(t, "a stream", status.Error(got, v.authority), v.want)
		}
	}
	_, err := r.client.SayHello(within(t), &pb.HelloRequest{},
		grpc.CallAuthority(strings.Repeat("a", 900)))
	is(t, "a call that its client does not send", err, codes.Internal)
}
