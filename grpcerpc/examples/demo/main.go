package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/auto"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// kinds names the networks below the stubs, in the order of the server's addresses.
var kinds = [...]string{"grpc-go TCP", "grpcerpc UDP", "grpcerpc shm"}

func main() {
	serve := flag.Bool("serve", false, "run the server alone")
	var o options
	flag.DurationVar(&o.each, "each", 400*time.Millisecond, "how long a measurement takes")
	flag.IntVar(&o.rounds, "rounds", 3, "measurements of each kind")
	flag.StringVar(&o.only, "only", "", "measure only rows whose names have this text")
	flag.BoolVar(&o.bars, "bars", false, "print ranges, CPU and whether the bars are met")
	flag.Parse()
	var err error
	if *serve {
		err = runServer()
	} else {
		err = run(&o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// options are what the flags say.
type options struct {
	each   time.Duration
	rounds int
	only   string
	bars   bool
}

// overUDP and overBoth open the transports.
func overUDP() (transport.Transport, error) { return udp.Listen("127.0.0.1:0", udp.Config{}) }

func overBoth() (transport.Transport, error) { return auto.Listen("127.0.0.1:0", auto.Config{}) }

// largest is more than the largest message has.
const largest = 16 << 20

// runServer serves over all kinds, prints the addresses, and ends with its standard input.
func runServer() error {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	gs := grpc.NewServer(grpc.MaxRecvMsgSize(largest))
	pb.RegisterGreeterServer(gs, greeter{})
	go func() { _ = gs.Serve(tcp) }() // ends with the process
	fmt.Println(tcp.Addr())
	for _, open := range []func() (transport.Transport, error){overUDP, overBoth} {
		tr, err := open()
		if err != nil {
			return err
		}
		s := grpcerpc.NewServer(grpcerpc.MaxRecvMsgSize(largest))
		pb.RegisterGreeterServer(s, greeter{})
		go func() { _ = s.Serve(tr) }()
		fmt.Println(tr.LocalAddr())
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() { // each line asks for the CPU time
		fmt.Println(cpu().Nanoseconds())
	}
	return in.Err()
}

// run starts the server, measures, and prints the table.
func run(o *options) (err error) {
	server := exec.Command(os.Args[0], "-serve")
	server.Stderr = os.Stderr
	in, err := server.StdinPipe()
	if err != nil {
		return err
	}
	out, err := server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close(), server.Wait()) }()
	b := &bench{options: o, in: in, out: bufio.NewScanner(out)}
	for i := range kinds {
		if !b.out.Scan() {
			return fmt.Errorf("the server said nothing: %w", b.out.Err())
		}
		cc, err := dial(i, b.out.Text())
		if err != nil {
			return err
		}
		defer cc.Close()
		b.clients = append(b.clients, pb.NewGreeterClient(cc))
	}
	return b.measureAll()
}

// conn is a connection of either library.
type conn interface {
	grpc.ClientConnInterface
	io.Closer
}

func dial(kind int, addr string) (conn, error) {
	target := "passthrough:///" + addr
	switch kind {
	case 0:
		return grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	case 1:
		return grpcerpc.NewClient(target, grpcerpc.WithTransport(overUDP))
	}
	return grpcerpc.NewClient(target, grpcerpc.WithTransport(overBoth))
}
