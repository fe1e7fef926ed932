package main

import (
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/chat/chatpb"
)

// backlog is how many lines may wait for a member. One that reads slower than the others talk has
// to leave: a room waits for nobody, and its memory is bounded.
const backlog = 256

// rooms is the service, as it would be with grpc-go.
type rooms struct {
	pb.UnimplementedChatServer
	mu   sync.Mutex
	list map[string]*room
}

func newRooms() *rooms { return &rooms{list: make(map[string]*room)} }

// room has its members. All of it is under the lock of the rooms, so all hear the same order.
type room struct {
	members map[*member]struct{}
	names   map[string]bool
}

// member is a stream that has joined.
type member struct {
	name  string
	lines chan *pb.Line // closed when the member is slow
	slow  bool
}

var errSlow = status.Error(codes.ResourceExhausted, "chat: too many lines were not read")

func (r *rooms) Join(s grpc.BidiStreamingServer[pb.Line, pb.Line]) error {
	first, err := s.Recv()
	if err != nil {
		return err
	}
	m, err := r.enter(first)
	if err != nil {
		return err
	}
	heard := make(chan error, 1)
	go func() { // ends with the stream
		heard <- r.hear(s, first, m)
		r.leave(first.GetRoom(), m)
	}()
	if err := m.send(s); err != nil {
		return err
	}
	return <-heard
}

// hear takes what a member says.
func (r *rooms) hear(
	s grpc.BidiStreamingServer[pb.Line, pb.Line], first *pb.Line, m *member,
) error {
	if first.GetText() != "" {
		r.say(first.GetRoom(), &pb.Line{Name: m.name, Text: first.GetText()})
	}
	for {
		l, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		r.say(first.GetRoom(), &pb.Line{Name: m.name, Text: l.GetText()})
	}
}

// send tells a member what was said, until it has left.
func (m *member) send(s grpc.BidiStreamingServer[pb.Line, pb.Line]) error {
	for l := range m.lines {
		if err := s.Send(l); err != nil {
			return err
		}
	}
	if m.slow {
		return errSlow
	}
	return nil
}

// enter adds a member, and tells all.
func (r *rooms) enter(l *pb.Line) (*member, error) {
	if l.GetRoom() == "" || l.GetName() == "" {
		return nil, status.Error(codes.InvalidArgument, "chat: the first line needs a room and a name")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	room := r.list[l.GetRoom()]
	if room == nil {
		room = newRoom()
		r.list[l.GetRoom()] = room
	}
	if room.names[l.GetName()] {
		return nil, status.Errorf(codes.AlreadyExists, "chat: %q is there already", l.GetName())
	}
	m := &member{name: l.GetName(), lines: make(chan *pb.Line, backlog)}
	room.members[m], room.names[m.name] = struct{}{}, true
	room.tell(&pb.Line{Name: m.name})
	return m, nil
}

func newRoom() *room {
	return &room{members: make(map[*member]struct{}), names: make(map[string]bool)}
}

// say tells all in a room.
func (r *rooms) say(name string, l *pb.Line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list[name].tell(l) // a member that says something keeps the room
}

// leave takes a member out, and tells the others. Rooms without members go.
func (r *rooms) leave(name string, m *member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	room := r.list[name]
	delete(room.names, m.name)
	if _, there := room.members[m]; there {
		delete(room.members, m)
		close(m.lines)
	}
	if len(room.names) == 0 {
		delete(r.list, name)
		return
	}
	room.tell(&pb.Line{Name: m.name, Left: true})
}

// tell puts a line behind the others of each member.
func (r *room) tell(l *pb.Line) {
	for m := range r.members {
		select {
		case m.lines <- l:
		default:
			m.slow = true
			delete(r.members, m)
			close(m.lines)
		}
	}
}
