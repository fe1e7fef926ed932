package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/routeguide/routeguidepb"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/auto"
)

func main() {
	addr := flag.String("serve", "", "serve at this address")
	flag.Parse()
	var err error
	switch {
	case *addr != "" && flag.NArg() == 0:
		err = serve(*addr)
	case flag.NArg() == 1:
		err = travel(os.Stdout, flag.Arg(0))
	case flag.NArg() == 0:
		err = both(os.Stdout)
	default:
		err = errors.New("use: routeguide, routeguide -serve ADDRESS, or routeguide ADDRESS")
	}
	if err != nil {
		log.Fatal(err)
	}
}

// newServer returns a server of a guide.
func newServer() *grpcerpc.Server {
	s := grpcerpc.NewServer()
	pb.RegisterRouteGuideServer(s, newGuide())
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

// both is a server and its client in one process.
func both(out io.Writer) error {
	tr, err := listen("127.0.0.1:0")
	if err != nil {
		return err
	}
	s, served := newServer(), make(chan error, 1)
	go func() { served <- s.Serve(tr) }()
	err = travel(out, tr.LocalAddr().String())
	s.GracefulStop()
	return errors.Join(err, <-served)
}

// travel makes a call of each kind.
func travel(out io.Writer, addr string) error {
	cc, err := grpcerpc.NewClient(addr)
	if err != nil {
		return err
	}
	defer cc.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	client := pb.NewRouteGuideClient(cc)
	for _, step := range []func(context.Context, io.Writer, pb.RouteGuideClient) error{
		look, list, record, chat,
	} {
		if err := step(ctx, out, client); err != nil {
			return err
		}
	}
	return nil
}

// look asks what is at two points.
func look(ctx context.Context, out io.Writer, c pb.RouteGuideClient) error {
	for _, p := range []*pb.Point{point(50.9413, 6.9583), point(0, 0)} {
		f, err := c.GetFeature(ctx, p)
		if err != nil {
			return err
		}
		name := f.GetName()
		if name == "" {
			name = "nothing"
		}
		fmt.Fprintf(out, "at %s: %s\n", text(p), name)
	}
	return nil
}

// list asks for all features in a rectangle.
func list(ctx context.Context, out io.Writer, c pb.RouteGuideClient) error {
	s, err := c.ListFeatures(ctx, &pb.Rectangle{Lo: point(50, 6), Hi: point(51, 8)})
	if err != nil {
		return err
	}
	for {
		f, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "in the rectangle: %s\n", f.GetName())
	}
}

// record sends a route.
func record(ctx context.Context, out io.Writer, c pb.RouteGuideClient) error {
	s, err := c.RecordRoute(ctx)
	if err != nil {
		return err
	}
	route := sights()[:4]
	for _, f := range route {
		if err := s.Send(f.GetLocation()); err != nil {
			break // CloseAndRecv says why
		}
	}
	sum, err := s.CloseAndRecv()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "a route of %d points by %d features: %d km\n", sum.GetPointCount(),
		sum.GetFeatureCount(), sum.GetDistance()/1000)
	return nil
}

// chat leaves notes, and reads those that were left before.
func chat(ctx context.Context, out io.Writer, c pb.RouteGuideClient) error {
	s, err := c.RouteChat(ctx)
	if err != nil {
		return err
	}
	sent := make(chan error, 1)
	go func() {
		here := point(50.7363, 7.1011)
		for _, text := range []string{"closed on Mondays", "open again", "worth it"} {
			if err := s.Send(&pb.RouteNote{Location: here, Message: text}); err != nil {
				break // Recv says why
			}
		}
		sent <- s.CloseSend()
	}()
	for {
		n, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return <-sent
		}
		if err != nil {
			return errors.Join(err, <-sent)
		}
		fmt.Fprintf(out, "noted at %s: %s\n", text(n.GetLocation()), n.GetMessage())
	}
}

// text returns a point in degrees.
func text(p *pb.Point) string {
	return fmt.Sprintf("%.4f,%.4f", float64(p.GetLatitude())/1e7, float64(p.GetLongitude())/1e7)
}
