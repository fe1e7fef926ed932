package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"time"

	"google.golang.org/grpc"

	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/chat/chatpb"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/auto"
)

func main() {
	addr := flag.String("serve", "", "serve at this address")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	switch {
	case *addr != "" && flag.NArg() == 0:
		err = serve(*addr)
	case flag.NArg() == 3:
		err = talk(ctx, os.Stdin, os.Stdout, flag.Arg(0), flag.Arg(1), flag.Arg(2))
	case flag.NArg() == 0:
		err = act(os.Stdout)
	default:
		err = errors.New("use: chat, chat -serve ADDRESS, or chat ADDRESS ROOM NAME")
	}
	if err != nil {
		log.Fatal(err)
	}
}

// newServer returns a server of rooms.
func newServer() *grpcerpc.Server {
	s := grpcerpc.NewServer()
	pb.RegisterChatServer(s, newRooms())
	return s
}

func listen(addr string) (transport.Transport, error) { return auto.Listen(addr, auto.Config{}) }

func serve(addr string) error {
	tr, err := listen(addr)
	if err != nil {
		return err
	}
	return newServer().Serve(tr)
}

// text returns a line as people read it.
func text(l *pb.Line) string {
	switch {
	case l.GetLeft():
		return l.GetName() + " has left"
	case l.GetText() == "":
		return l.GetName() + " is here"
	}
	return l.GetName() + ": " + l.GetText()
}

// join joins a room.
func join(
	ctx context.Context, cc grpc.ClientConnInterface, room, name string,
) (grpc.BidiStreamingClient[pb.Line, pb.Line], error) {
	s, err := pb.NewChatClient(cc).Join(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.Send(&pb.Line{Room: room, Name: name}); err != nil {
		_, err = s.Recv() // it has the status
		return nil, err
	}
	return s, nil
}

// talk says the lines of in, and prints what the room says, until in ends.
func talk(ctx context.Context, in io.Reader, out io.Writer, addr, room, name string) error {
	cc, err := grpcerpc.NewClient(addr)
	if err != nil {
		return err
	}
	defer cc.Close()
	s, err := join(ctx, cc, room, name)
	if err != nil {
		return err
	}
	go func() {
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			if s.Send(&pb.Line{Text: lines.Text()}) != nil {
				return // Recv says why
			}
		}
		_ = s.CloseSend() // in vain if the stream has ended
	}()
	for {
		l, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(out, text(l))
	}
}

// scene is the dialogue that act plays. A name without a text leaves.
var scene = []struct{ name, text string }{
	{"Ada", "does this need HTTP/2?"}, {"Grace", "no, the stubs are the same"},
	{"Alan", "and it goes both ways"}, {"Grace", ""}, {"Ada", "bye"}, {"Ada", ""},
}

// act has three people talk in a room, and prints what Alan hears.
func act(out io.Writer) error {
	tr, err := listen("127.0.0.1:0")
	if err != nil {
		return err
	}
	server, served := newServer(), make(chan error, 1)
	go func() { served <- server.Serve(tr) }()
	err = play(out, tr.LocalAddr().String())
	server.GracefulStop()
	return errors.Join(err, <-served)
}

// play plays the scene. Each line is said when Alan has heard the one before.
func play(out io.Writer, addr string) error {
	cc, err := grpcerpc.NewClient(addr)
	if err != nil {
		return err
	}
	defer cc.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	people := make(map[string]grpc.BidiStreamingClient[pb.Line, pb.Line])
	hear := func() error {
		l, err := people["Alan"].Recv()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, text(l))
		return err
	}
	for _, name := range []string{"Alan", "Ada", "Grace"} {
		if people[name], err = join(ctx, cc, "erpc", name); err != nil {
			return err
		}
		if err := hear(); err != nil {
			return err
		}
	}
	for _, line := range scene {
		if line.text == "" {
			err = people[line.name].CloseSend()
		} else {
			err = people[line.name].Send(&pb.Line{Text: line.text})
		}
		if err = errors.Join(err, hear()); err != nil {
			return err
		}
	}
	return people["Alan"].CloseSend()
}
