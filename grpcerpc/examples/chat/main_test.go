package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/chat/chatpb"
)

// TestScene: all hear what all say, in one order.
func TestScene(t *testing.T) {
	defer goleak.VerifyNone(t)
	var out strings.Builder
	if err := act(&out); err != nil {
		t.Fatal(err)
	}
	const want = `Alan is here
Ada is here
Grace is here
Ada: does this need HTTP/2?
Grace: no, the stubs are the same
Alan: and it goes both ways
Grace has left
Ada: bye
Ada has left
`
	if out.String() != want {
		t.Errorf("%s", out.String())
	}
}

// rig is a server and a client of it.
func rig(t *testing.T) (*rooms, string, *grpcerpc.ClientConn) {
	t.Helper()
	tr, err := listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r, s := newRooms(), grpcerpc.NewServer()
	pb.RegisterChatServer(s, r)
	var served sync.WaitGroup
	served.Go(func() {
		if err := s.Serve(tr); err != nil {
			t.Error(err)
		}
	})
	addr := tr.LocalAddr().String()
	cc, err := grpcerpc.NewClient(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cc.Close()
		s.Stop()
		served.Wait()
		goleak.VerifyNone(t)
	})
	return r, addr, cc
}

// TestOrder: while many talk at once, all of them hear the same, and all of it.
func TestOrder(t *testing.T) {
	_, _, cc := rig(t)
	const people, lines = 5, 20
	heard := make([]string, people)
	var all, here sync.WaitGroup
	here.Add(people)
	for i := range people {
		all.Go(func() {
			s, err := join(t.Context(), cc, "room", fmt.Sprint(i))
			if err != nil {
				t.Error(err)
				here.Done()
				return
			}
			for arrived, said := 0, 0; said < people*lines; {
				l, err := s.Recv()
				if err != nil {
					t.Error(err)
					return
				}
				if l.GetText() != "" {
					heard[i] += text(l) + "\n"
					said++
					continue
				}
				if arrived++; l.GetName() == fmt.Sprint(i) {
					here.Done()
					go func() {
						here.Wait()
						for n := range lines {
							if err := s.Send(&pb.Line{Text: fmt.Sprint(n)}); err != nil {
								t.Error(err)
							}
						}
					}()
				}
			}
			all.Go(func() { _ = s.CloseSend() })
			for err = nil; err == nil; {
				_, err = s.Recv()
			}
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for i, h := range heard {
		if h != heard[0] || strings.Count(h, "\n") != people*lines {
			t.Errorf("%d heard otherwise than 0", i)
		}
	}
}

// TestRefused: a member without a name, or with one that is taken, is told so.
func TestRefused(t *testing.T) {
	r, addr, cc := rig(t)
	one, err := join(t.Context(), cc, "room", "one")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := one.Recv(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]codes.Code{
		"": codes.InvalidArgument, "one": codes.AlreadyExists,
	} {
		err := talk(t.Context(), strings.NewReader(""), new(strings.Builder), addr, "room", name)
		if status.Code(err) != want {
			t.Errorf("%q: %v, want %v", name, err, want)
		}
	}
	var out strings.Builder
	err = talk(t.Context(), strings.NewReader("hello\n"), &out, addr, "room", "two")
	if err != nil || out.String() != "two is here\ntwo: hello\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	if err := one.CloseSend(); err != nil {
		t.Error(err)
	}
	for err = nil; err == nil; {
		_, err = one.Recv()
	}
	if r.mu.Lock(); len(r.list) != 0 {
		t.Error("a room without members is left")
	}
	r.mu.Unlock()
}

// TestSlow: a member that does not read has to leave, and holds up nobody.
func TestSlow(t *testing.T) {
	r := newRooms()
	slow, err := r.enter(&pb.Line{Room: "room", Name: "slow"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 * backlog {
		r.say("room", &pb.Line{Name: "x", Text: "y"})
	}
	n := 0
	for range slow.lines {
		n++
	}
	if n != backlog || !slow.slow {
		t.Errorf("%d lines wait", n)
	}
	r.leave("room", slow)
	if len(r.list) != 0 {
		t.Error("the room is left")
	}
}
