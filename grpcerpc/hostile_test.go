package grpcerpc_test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/grpcerpc"
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

// exchange sends an exchange of one section on a connection of its own, and returns the code that
// the stream ended with.
func (h *hostile) exchange(sec frame.Section) codes.Code {
	w := h.hello(frame.Version)
	return h.send(frame.Exchange{Token: w.Token, Sections: sec.Append(nil)})
}

// send sends an exchange and returns the code that the stream or the connection ended with.
func (h *hostile) send(x frame.Exchange) codes.Code {
	b, err := h.Call(within(h), frame.TypeExchange, x.Append(nil))
	is(h, "exchange", err, codes.OK)
	y, err := frame.ParseReply(b)
	is(h, "reply", err, codes.OK)
	if y.Gone {
		return codes.Code(y.Status.Code)
	}
	sec, rest, err := frame.NextSection(y.Sections)
	is(h, "section", err, codes.OK)
	if len(rest) > 0 {
		h.Fatal("more sections than streams")
	}
	for frames := sec.Frames; len(frames) > 0; {
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
		"empty messages beyond it": {chat, bytes.Repeat(message(0, 0), 1<<18/32+1),
			codes.ResourceExhausted},
	} {
		if got := h.exchange(frame.Section{Stream: 1, Limit: 1 << 20, Open: v.head,
			Frames: v.frames}); got != v.want {
			t.Errorf("%s: %v, want %v", what, got, v.want)
		}
	}
	sec := frame.Section{Stream: 1, Open: chat}
	end := frame.Section{Stream: 1, End: true}
	for _, v := range []struct { // in this order
		what string
		frame.Exchange
	}{
		{"another token", frame.Exchange{Token: h.token + 1, Sections: sec.Append(nil)}},
		{"a far exchange", frame.Exchange{Token: h.token, Seq: 1 << 40, Sections: sec.Append(nil)}},
		{"after that", frame.Exchange{Token: h.token, Sections: sec.Append(nil)}},
		{"no section", frame.Exchange{Token: h.hello(frame.Version).Token, Sections: []byte{0xff}}},
		{"half of one", frame.Exchange{Token: h.hello(frame.Version).Token,
			Sections: sec.Append(nil)[:5]}},
	} {
		if got := h.send(v.Exchange); got == codes.OK {
			t.Errorf("%s: success", v.what)
		}
	}
	// Streams that have ended, or never began, are passed over; the next one answers.
	bad := frame.Section{Stream: 9, Open: &frame.Head{Method: []byte("x")}}
	all := bad.Append(sec.Append(end.Append(nil)))
	got := h.send(frame.Exchange{Token: h.hello(frame.Version).Token, Sections: all})
	is(t, "a stream behind others", status.Error(got, ""), codes.Unimplemented)
	for _, typ := range []uint8{
		frame.TypeHello, frame.TypeUnary, frame.TypeExchange, frame.TypeLife, frame.TypeLeave,
	} {
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
	sec := frame.Section{Stream: 1, Frames: wait,
		Open: &frame.Head{Method: []byte("/helloworld.Greeter/Chat")}}
	x := frame.Exchange{Token: h.token, Sections: sec.Append(nil)}
	is(t, "stream", h.Start(frame.TypeExchange, x.Append(nil), func([]byte, error) {}), codes.OK)
	at := eventually(t, r.began, "the handler")
	is(t, "close", h.Close(), codes.OK)
	eventually(t, at.Done(), "the end of the handler's context")
}

// TestHostileLeaves: a connection has one Leave that waits. Others are answered at once, and so is
// one of a connection that is not there.
func TestHostileLeaves(t *testing.T) {
	r := newRig(t, nil)
	h := newHostile(t, r)
	token := binary.LittleEndian.AppendUint64(nil, h.token)
	const all = 101
	ended := make(chan error, all)
	is(t, "life", h.Start(frame.TypeLife, token, func([]byte, error) {}), codes.OK)
	for range all { // any of them may come first
		is(t, "leave", h.Start(frame.TypeLeave, token, func(_ []byte, err error) { ended <- err }),
			codes.OK)
	}
	for range all - 1 {
		is(t, "another one", eventually(t, ended, "another one"), codes.OK)
	}
	_, err := h.Call(within(t), frame.TypeLeave, make([]byte, 8))
	is(t, "an unknown one", err, codes.OK)
	select {
	case <-ended:
		t.Error("the client was told to leave")
	default:
	}
	go r.server.GracefulStop()
	is(t, "the notice", eventually(t, ended, "the notice"), codes.OK)
}

// TestHostileHellos: one address opens so many connections and no more, and others are served.
func TestHostileHellos(t *testing.T) {
	r := newRig(t, nil)
	h := newHostile(t, r)
	var opened atomic.Int32
	opened.Store(1)
	var all sync.WaitGroup
	for range 32 { // at once: connections without Life are forgotten after 10 s
		all.Go(func() {
			hello := frame.Hello{Version: frame.Version}
			for opened.Load() < 10000 {
				b, err := h.Call(within(t), frame.TypeHello, hello.Append(nil))
				w, err2 := frame.ParseWelcome(b)
				if err != nil || err2 != nil {
					t.Error(err, err2)
					return
				}
				if w.Refusal != "" {
					return
				}
				opened.Add(1)
			}
		})
	}
	all.Wait()
	if n := opened.Load(); n != 1024 {
		t.Errorf("%d connections", n)
	}
	_, err := r.client.SayHello(within(t), &pb.HelloRequest{})
	is(t, "a call of another client", err, codes.OK)
}

// TestHostileNames: a connection keeps names of a bounded size.
func TestHostileNames(t *testing.T) {
	h := newHostile(t, newRig(t, nil))
	for n, refused := range map[int]bool{16 << 10: false, 16<<10 + 1: true} {
		hello := frame.Hello{Version: frame.Version, UserAgent: strings.Repeat("a", 1000),
			Authority: strings.Repeat("b", n-1000)}
		b, err := h.Call(within(t), frame.TypeHello, hello.Append(nil))
		is(t, "hello", err, codes.OK)
		if w, err := frame.ParseWelcome(b); err != nil || (w.Refusal != "") != refused {
			t.Errorf("%d bytes: %q, %v", n, w.Refusal, err)
		}
	}
}

// TestHostileRefusals: streams that cannot be are refused one by one, but an exchange with a flood
// of them ends the connection.
func TestHostileRefusals(t *testing.T) {
	h := newHostile(t, newRig(t, nil))
	streams := func(n int) (all []byte) {
		for i := range n {
			sec := frame.Section{Stream: uint64(i + 1)} // which was not opened
			all = sec.Append(all)
		}
		return all
	}
	x := frame.Exchange{Token: h.token, Sections: streams(1000)}
	b, err := h.Call(within(t), frame.TypeExchange, x.Append(nil))
	is(t, "exchange", err, codes.OK)
	y, err := frame.ParseReply(b)
	is(t, "reply", err, codes.OK)
	n := 0
	for rest := y.Sections; len(rest) > 0; n++ {
		_, rest, err = frame.NextSection(rest)
		is(t, "section", err, codes.OK)
	}
	if n != 1000 || y.Gone {
		t.Errorf("%d refusals, gone: %v", n, y.Gone)
	}
	x = frame.Exchange{Token: h.hello(frame.Version).Token, Sections: streams(1 << 18)}
	b, err = h.Call(within(t), frame.TypeExchange, x.Append(nil))
	is(t, "exchange", err, codes.OK)
	if y, err = frame.ParseReply(b); err != nil || !y.Gone {
		t.Errorf("after a flood: %d bytes, %v", len(b), err)
	}
}

// TestHostileReset: streams that a client opens and leaves at once count as long as their handlers
// run, and others wait for these: as many as may be begun, and no more. Those that it leaves while
// they wait never run.
func TestHostileReset(t *testing.T) {
	release, began := make(chan struct{}), make(chan struct{}, 100)
	var running atomic.Int32
	r := newRig(t, nil, grpcerpc.MaxConcurrentStreams(4), grpcerpc.StreamInterceptor(func(
		any, grpc.ServerStream, *grpc.StreamServerInfo, grpc.StreamHandler) error {
		running.Add(1)
		began <- struct{}{}
		<-release
		return nil
	}))
	h := newHostile(t, r)
	chat := &frame.Head{Method: []byte("/helloworld.Greeter/Chat")}
	open := func(b []byte, id uint64) []byte {
		sec := frame.Section{Stream: id, Open: chat}
		return sec.Append(b)
	}
	x := frame.Exchange{Token: h.token}
	for id := uint64(1); id <= 4; id++ {
		x.Sections = open(x.Sections, id)
	}
	none := frame.Section{Stream: 5, Open: &frame.Head{Method: []byte("/no/method")}}
	x.Sections = none.Append(x.Sections) // which is answered
	if got := h.send(x); got != codes.Unimplemented {
		t.Errorf("no method: %v", got)
	}
	for range 4 {
		eventually(t, began, "a handler")
	}
	x.Seq, x.Sections = 1, nil
	for id := uint64(1); id <= 13; id++ {
		if id > 5 {
			x.Sections = open(x.Sections, id)
		}
		end := frame.Section{Stream: id, End: true}
		x.Sections = end.Append(x.Sections)
	}
	const most = 4 + 64
	for id := uint64(14); id <= 14+most; id++ {
		x.Sections = open(x.Sections, id)
	}
	if got := h.send(x); got != codes.ResourceExhausted {
		t.Errorf("one more than may be begun: %v", got)
	}
	close(release)
	for range most {
		eventually(t, began, "a handler that waited")
	}
	if n := running.Load(); n != 4+most {
		t.Errorf("%d handlers ran", n)
	}
	for id := uint64(15 + most); len(began) == 0; id++ { // until it has heard of all that ended
		x.Seq++
		x.Sections = open(nil, id)
		_, err := h.Call(within(t), frame.TypeExchange, x.Append(nil))
		is(t, "when they have returned", err, codes.OK)
	}
}
