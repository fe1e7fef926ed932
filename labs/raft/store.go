package main

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/replica"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	service    = "bench.Store"
	callMethod = "/" + service + "/Call"
	pipeMethod = "/" + service + "/Pipe"
	echoMethod = "/" + service + "/Echo"
)

// store is one replica behind a gRPC server.
type store struct {
	mu      sync.Mutex
	rep     *replica.Replica
	server  *grpc.Server
	lis     net.Listener
	out     map[uint64]chan []byte // messages to peers
	waiting map[uint64]chan kv.Answer
	lastTag uint64
	ready   chan struct{} // closed when rep is there
	clock   *time.Timer   // of rep's next tick, or of the end of a round
	armed   monotime.Time // when it fires; 0: it has fired
	wg      sync.WaitGroup
	stop    context.CancelFunc
}

// newGRPC is a replica over grpc-go.
func newGRPC() (member, error) { return newStore() }

func (s *store) addr() string { return s.lis.Addr().String() }

func (s *store) figures() used { return used{} }

// close ends the replica.
func (s *store) close() error {
	if s.stop != nil {
		s.stop()
	}
	s.server.Stop()
	s.wg.Wait()
	if s.clock != nil {
		s.clock.Stop()
	}
	return nil
}

// newStore listens; start gives it its replica.
func newStore() (*store, error) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &store{lis: lis, out: map[uint64]chan []byte{}, waiting: map[uint64]chan kv.Answer{},
		ready: make(chan struct{}), server: grpc.NewServer()}
	unary := func(do func(context.Context, []byte) ([]byte, error)) func(any, context.Context,
		func(any) error, grpc.UnaryServerInterceptor) (any, error) {
		return func(_ any, ctx context.Context, decode func(any) error,
			_ grpc.UnaryServerInterceptor) (any, error) {
			in := new(wrapperspb.BytesValue)
			if err := decode(in); err != nil {
				return nil, err
			}
			b, err := do(ctx, in.Value)
			return &wrapperspb.BytesValue{Value: b}, err
		}
	}
	s.server.RegisterService(&grpc.ServiceDesc{ServiceName: service, HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Call", Handler: unary(s.call)},
			{MethodName: "Echo", Handler: unary(echo)}},
		Streams: []grpc.StreamDesc{{StreamName: "Pipe", ClientStreams: true,
			Handler: func(_ any, st grpc.ServerStream) error {
				return s.receive(st)
			}}},
	}, struct{}{})
	go func() { _ = s.server.Serve(lis) }() // its end is Stop's
	return s, nil
}

func echo(_ context.Context, b []byte) ([]byte, error) { return b[:min(16, len(b))], nil }

// start makes the replica, and a stream to each peer.
func (s *store) start(ctx context.Context, st *start) error {
	ctx, s.stop = context.WithCancel(ctx)
	id, members := st.ID, st.Members
	rep, err := replica.New(replica.Config{Cluster: 1, ID: id, Keys: st.Keys}, s,
		replica.Boot(members), monotime.Now())
	if err != nil {
		return err
	}
	s.rep = rep
	for peer, addr := range members {
		if peer == id {
			continue
		}
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		pipe, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, pipeMethod)
		if err != nil {
			return errors.Join(err, conn.Close())
		}
		ch := make(chan []byte, 1024)
		s.out[peer] = ch
		s.wg.Go(func() {
			defer conn.Close()
			for {
				select {
				case <-ctx.Done():
					return
				case b := <-ch:
					if pipe.SendMsg(&wrapperspb.BytesValue{Value: b}) != nil {
						return
					}
				}
			}
		})
	}
	s.mu.Lock()
	s.clock = time.AfterFunc(time.Hour, s.wake)
	s.mu.Unlock()
	close(s.ready)
	s.step(func() {
		if id == 1 {
			s.rep.Campaign()
		}
	})
	return nil
}

// wake is called when the clock fires. By the replica's own clock that may be a little early, and
// then its next wake is the same again.
func (s *store) wake() { s.step(func() { s.armed = 0 }) }

// step has the replica do f and all that follows from it, now, and sets the clock for what is next.
func (s *store) step(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rep.Tick(monotime.Now())
	f()
	s.rep.Process()
	if next := s.rep.NextWake(); next != s.armed {
		s.armed = next
		s.clock.Reset(next.Sub(monotime.Now()))
	}
}

// receive takes a peer's messages.
func (s *store) receive(st grpc.ServerStream) error {
	<-s.ready
	for {
		in := new(wrapperspb.BytesValue)
		if err := st.RecvMsg(in); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		m, _, err := replica.ParseMessage(in.Value)
		if err != nil {
			return err
		}
		s.step(func() { s.rep.Step(m) })
	}
}

// call is a client's command.
func (s *store) call(ctx context.Context, b []byte) ([]byte, error) {
	c, err := kv.ParseCommand(b)
	if err != nil {
		return nil, err
	}
	<-s.ready
	got := make(chan kv.Answer, 1)
	var a kv.Answer
	var ok bool
	s.step(func() {
		s.lastTag++
		tag := s.lastTag
		s.waiting[tag] = got
		if c.Op == kv.Get {
			a, ok = s.rep.Read(c.Key, false, tag)
		} else {
			a, ok = s.rep.Propose(b, tag)
		}
		if !ok {
			delete(s.waiting, tag)
		}
	})
	if ok {
		select {
		case a = <-got:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return a.Append(nil), nil
}

// Send implements replica.Host. A full channel loses messages, as Raft allows.
func (s *store) Send(m *pb.Message) {
	if ch := s.out[m.GetTo()]; ch != nil && m.GetType() != pb.MsgSnap {
		select {
		case ch <- replica.AppendMessage(nil, m):
		default:
		}
	}
}

// Answer implements replica.Host.
func (s *store) Answer(tag uint64, a *kv.Answer) {
	if ch := s.waiting[tag]; ch != nil {
		delete(s.waiting, tag)
		ch <- *a
	}
}

// Durable implements replica.Host: there is no disk.
func (s *store) Durable() bool { return false }

// Save implements replica.Host; it is not called.
func (s *store) Save(*pb.HardState, []*pb.Entry, *pb.Snapshot) {}

// SendSnapshot implements replica.Host: nobody needs one.
func (s *store) SendSnapshot(*pb.Message, *kv.Saver) {}

// Prepare implements replica.Host: nothing is durable.
func (s *store) Prepare(*pb.Snapshot, *kv.Saver) {}

// Compact implements replica.Host; it is not called.
func (s *store) Compact(*pb.Snapshot, *pb.HardState, []*pb.Entry) {}
