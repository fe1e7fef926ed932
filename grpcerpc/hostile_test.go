package grpcerpc_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/userspace-rpc/erpc/erpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
	"github.com/userspace-rpc/erpc/grpcerpc/internal/frame"
)

// hostile is a client that sends what it likes.
type hostile struct {
	*testing.T
	*erpc.Client
	token uint64
}

func newHostile(t *testing.T, r *rig) *hostile {
	tr, err := overUDP()
	is(t, "listen", err, codes.OK)
	c, err := erpc.Dial(within(t), tr, r.addr, erpc.Config{})
	is(t, "dial", err, codes.OK)
	t.Cleanup(func() { _ = c.Close() })
	h := &hostile{T: t, Client: c}
	w := h.hello(frame.Version)
	if h.token = w.Token; w.Refusal != "" {
		t.Fatal(w.Refusal)
	}
	return h
}

func (h *hostile) hello(version uint64) frame.Welcome {
	hello := frame.Hello{Version: version}
	b, err := h.Call(within(h), frame.TypeHello, hello.Append(nil))
	is(h, "hello", err, codes.OK)
	w, err := frame.ParseWelcome(b)
	is(h, "welcome", err, codes.OK)
	return w
}

// exchange sends an exchange and returns the code that the stream ended with.
func (h *hostile) exchange(x frame.Exchange) codes.Code {
	b, err := h.Call(within(h), frame.TypeExchange, x.Append(nil))
	is(h, "exchange", err, codes.OK)
	y, err := frame.ParseReply(b)
	is(h, "reply", err, codes.OK)
	if y.Gone && y.Status.Code == 0 {
		return codes.Unavailable // it has ended
	}
	if y.Gone {
		return codes.Code(y.Status.Code)
	}
	for frames := y.Frames; len(frames) > 0; {
		kind, payload, rest, err := frame.Next(frames)
		is(h, "frame", err, codes.OK)
		if frames = rest; kind == frame.Trailers {
			st, _, err := frame.ParseTrailers(payload)
			is(h, "trailers", err, codes.OK)
			return codes.Code(st.Code)
		}
	}
	h.Fatal("the stream goes on")
	return 0
}

// TestHostileClient: what a client may send wrong ends with a status, and the server serves others.
func TestHostileClient(t *testing.T) {
	r := newRig(t, nil)
	h := newHostile(t, r)
	if w := h.hello(77); w.Refusal == "" {
		t.Error("version 77 is welcome")
	}
	chat := &frame.Head{Method: []byte("/helloworld.Greeter/Chat")}
	message := func(size uint64, n int) []byte {
		payload := append(binary.AppendUvarint(nil, size), make([]byte, n)...)
		return frame.AppendFrame(nil, frame.Message, payload)
	}
	more := func(n int) []byte { return frame.AppendFrame(nil, frame.More, make([]byte, n)) }
	join := func(parts ...[]byte) (all []byte) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	id := uint64(0)
	for what, v := range map[string]struct {
		head   *frame.Head
		frames []byte
		want   codes.Code
	}{
		"no stream": {nil, message(0, 0), codes.Internal},
		"no method": {&frame.Head{Method: []byte("\xff/\x00")}, nil, codes.Unimplemented},
		"no codec": {&frame.Head{Method: chat.Method, Subtype: []byte("x")}, nil,
			codes.Unimplemented},
		"unknown kind":     {chat, []byte{99, 0}, codes.Internal},
		"cut off":          {chat, []byte{byte(frame.Message), 50, 1}, codes.Internal},
		"nothing to go on": {chat, more(10), codes.Internal},
		"more than it is":  {chat, join(message(5, 3), more(3)), codes.Internal},
		"a second message": {chat, join(message(5, 3), message(5, 3)), codes.Internal},
		"trailers": {chat, frame.AppendFrame(nil, frame.Trailers, []byte{0, 0, 0, 0}),
			codes.Internal},
		"after the end": {chat, join(frame.AppendFrame(nil, frame.HalfClose, nil), message(0, 0)),
			codes.Internal},
		"too large":     {chat, message(1<<40, 0), codes.ResourceExhausted},
		"beyond window": {chat, join(message(1<<20, 1<<18), more(1<<18)), codes.ResourceExhausted},
	} {
		id++
		if got := h.exchange(frame.Exchange{Token: h.token, Stream: id, Limit: 1 << 20, Open: v.head,
			Frames: v.frames}); got != v.want {
			t.Errorf("%s: %v, want %v", what, got, v.want)
		}
	}
	for what, x := range map[string]frame.Exchange{
		"another token":  {Token: h.token + 1, Stream: 50, Open: chat},
		"a past stream":  {Token: h.token, Stream: 1, Open: chat},
		"a far number":   {Token: h.token, Stream: 1 << 60, Open: chat},
		"a far exchange": {Token: h.token, Stream: 51, Seq: 1 << 40, Open: chat},
		"cancelled":      {Token: h.token, Stream: 52, Cancel: true},
	} {
		if got := h.exchange(x); got == codes.OK {
			t.Errorf("%s: success", what)
		}
	}
	for _, typ := range []uint8{frame.TypeHello, frame.TypeUnary, frame.TypeExchange, frame.TypeLife} {
		for _, b := range [][]byte{nil, {0}, make([]byte, 20), bytes.Repeat([]byte{0xff}, 20)} {
			_, _ = h.Call(within(t), typ, b)
		}
	}
	_, err := r.client.SayHello(within(t), &pb.HelloRequest{})
	is(t, "a call of another client", err, codes.OK)
}

// TestHostileIdle: connections and streams that a client leaves behind end with its session.
func TestHostileIdle(t *testing.T) {
	r := newRig(t, nil)
	h := newHostile(t, r)
	life := binary.LittleEndian.AppendUint64(nil, h.token)
	is(t, "life", h.Start(frame.TypeLife, life, func([]byte, error) {}), codes.OK)
	wait := []byte{byte(frame.Message), 7, 6, 10, 4, 'w', 'a', 'i', 't'}
	x := frame.Exchange{Token: h.token, Stream: 1, Frames: wait,
		Open: &frame.Head{Method: []byte("/helloworld.Greeter/Chat")}}
	is(t, "stream", h.Start(frame.TypeExchange, x.Append(nil), func([]byte, error) {}), codes.OK)
	at := eventually(t, r.began, "the handler")
	is(t, "close", h.Close(), codes.OK)
	eventually(t, at.Done(), "the end of the handler's context")
}

// TestHostileHellos: one address opens so many connections and no more, and others are served.
func TestHostileHellos(t *testing.T) {
	r := newRig(t, nil)
	h := newHostile(t, r)
	opened := 1
	for w := h.hello(frame.Version); w.Refusal == ""; w = h.hello(frame.Version) {
		if opened++; opened > 1000 {
			t.Fatal("connections without end")
		}
	}
	if opened != 256 {
		t.Errorf("%d connections", opened)
	}
	_, err := r.client.SayHello(within(t), &pb.HelloRequest{})
	is(t, "a call of another client", err, codes.OK)
}
