package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"
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
var kinds = []string{"grpc-go TCP", "grpcerpc UDP", "grpcerpc shm"}

func main() {
	serve := flag.Bool("serve", false, "run the server alone")
	each := flag.Duration("each", 400*time.Millisecond, "how long a measurement takes")
	rounds := flag.Int("rounds", 3, "measurements of each kind")
	flag.Parse()
	var err error
	if *serve {
		err = runServer()
	} else {
		err = run(*each, *rounds)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// overUDP and overBoth open the transports.
func overUDP() (transport.Transport, error) { return udp.Listen("127.0.0.1:0", udp.Config{}) }

func overBoth() (transport.Transport, error) { return auto.Listen("127.0.0.1:0", auto.Config{}) }

// runServer serves over all kinds, prints the addresses, and ends with its standard input.
func runServer() error {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	gs := grpc.NewServer()
	pb.RegisterGreeterServer(gs, greeter{})
	go func() { _ = gs.Serve(tcp) }() // ends with the process
	fmt.Println(tcp.Addr())
	for _, open := range []func() (transport.Transport, error){overUDP, overBoth} {
		tr, err := open()
		if err != nil {
			return err
		}
		s := grpcerpc.NewServer()
		pb.RegisterGreeterServer(s, greeter{})
		go func() { _ = s.Serve(tr) }()
		fmt.Println(tr.LocalAddr())
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// run starts the server, measures, and prints the table.
func run(each time.Duration, rounds int) (err error) {
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
	lines := bufio.NewScanner(out)
	var clients []pb.GreeterClient
	for i := range kinds {
		if !lines.Scan() {
			return fmt.Errorf("the server said nothing: %w", lines.Err())
		}
		cc, err := dial(i, lines.Text())
		if err != nil {
			return err
		}
		defer cc.Close()
		clients = append(clients, pb.NewGreeterClient(cc))
	}
	return measureAll(clients, each, rounds)
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

// measureAll measures all rows and prints them.
func measureAll(clients []pb.GreeterClient, each time.Duration, rounds int) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "\t%s\t\n", strings.Join(kinds, "\t"))
	for _, row := range rows {
		figures := make([][]float64, len(clients))
		for range rounds {
			for i, client := range clients {
				v, err := row.measure(ctx, client, each)
				if err != nil {
					return fmt.Errorf("%s over %s: %w", row.name, kinds[i], err)
				}
				figures[i] = append(figures[i], v)
			}
		}
		fmt.Fprint(table, row.name, "\t")
		var base float64
		for i, f := range figures {
			slices.Sort(f)
			median := f[len(f)/2]
			if i == 0 {
				base = median
				fmt.Fprintf(table, row.format+"\t", median)
			} else {
				fmt.Fprintf(table, row.format+" (%.1fx)\t", median, median/base)
			}
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}
