package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/auto"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// child is a server or a client, a process that answers lines by lines.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func start(args ...string) (*child, error) {
	c := &child{cmd: exec.Command(os.Args[0], args...)}
	c.cmd.Stderr = os.Stderr
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewScanner(out)
	return c, c.cmd.Start()
}

// line reads a line.
func (c *child) line() (string, error) {
	if !c.out.Scan() {
		return "", fmt.Errorf("a process said nothing: %w", c.out.Err())
	}
	return c.out.Text(), nil
}

// ask sends a line and reads the answer.
func (c *child) ask(line string) (string, error) {
	if _, err := fmt.Fprintln(c.in, line); err != nil {
		return "", err
	}
	return c.line()
}

// end ends the process, whose standard input ends, and waits for it.
func (c *child) end() error {
	err := c.in.Close()
	if ended := c.cmd.Wait(); ended != nil {
		return ended
	}
	return err
}

// overUDP and overBoth open the transports.
func overUDP() (transport.Transport, error) { return udp.Listen("127.0.0.1:0", udp.Config{}) }

func overBoth() (transport.Transport, error) { return auto.Listen("127.0.0.1:0", auto.Config{}) }

// largest is more than the largest message has.
const largest = 16 << 20

// listen listens for the kinds that have connections. A unix socket is in dir.
func listen(kind int, dir string) (net.Listener, error) {
	if kind == unixKind {
		return net.Listen("unix", filepath.Join(dir, "socket"))
	}
	return net.Listen("tcp", "127.0.0.1:0")
}

// serve begins to serve a kind and returns the address. Its files are in dir.
func serve(kind int, dir string) (net.Addr, error) {
	if kind != udpKind && kind != shmKind {
		l, err := listen(kind, dir)
		if err != nil {
			return nil, err
		}
		if kind == bareKind {
			go serveBare(l)
			return l.Addr(), nil
		}
		s := grpc.NewServer(grpc.MaxRecvMsgSize(largest))
		pb.RegisterGreeterServer(s, greeter{})
		go func() { _ = s.Serve(l) }() // ends with the process
		return l.Addr(), nil
	}
	open := overUDP
	if kind == shmKind {
		open = overBoth
	}
	tr, err := open()
	if err != nil {
		return nil, err
	}
	s := grpcerpc.NewServer(grpcerpc.MaxRecvMsgSize(largest))
	pb.RegisterGreeterServer(s, greeter{})
	go func() { _ = s.Serve(tr) }()
	return net.ResolveUDPAddr("udp", tr.LocalAddr().String())
}

// runServer serves a kind, prints the address, and ends with its standard input, whose lines ask
// for the CPU time.
func runServer(kind int) (err error) {
	dir, err := os.MkdirTemp("", "grpc-demo")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	addr, err := serve(kind, dir)
	if err != nil {
		return err
	}
	fmt.Println(addr)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		fmt.Println(cpu().Nanoseconds())
	}
	return in.Err()
}

// conn is a connection of either library.
type conn interface {
	grpc.ClientConnInterface
	io.Closer
}

func dial(kind int, addr string) (conn, error) {
	target := "passthrough:///" + addr
	switch kind {
	case tcpKind, unixKind:
		if kind == unixKind {
			target = "unix:" + addr
		}
		return grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	case udpKind:
		return grpcerpc.NewClient(target, grpcerpc.WithTransport(overUDP))
	case bareKind:
		return dialBare(addr)
	}
	return grpcerpc.NewClient(target, grpcerpc.WithTransport(overBoth))
}

// runClient measures what the lines of its standard input ask for: the number of a row, and a time
// in nanoseconds. It answers with the value, the number of operations and its CPU time.
func runClient(kind int, addr string) error {
	cc, err := dial(kind, addr)
	if err != nil {
		return err
	}
	defer cc.Close()
	client := pb.NewGreeterClient(cc)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var row int
		var nanos int64
		if _, err := fmt.Sscan(in.Text(), &row, &nanos); err != nil || row < 0 || row >= len(rows) {
			return fmt.Errorf("no such row: %q", in.Text())
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		before := cpu()
		f, err := rows[row].measure(ctx, client, time.Duration(nanos))
		used := cpu() - before
		cancel()
		if err != nil {
			return fmt.Errorf("%s over %s: %w", rows[row].name, kinds[kind], err)
		}
		fmt.Println(f.value, f.ops, used.Nanoseconds())
	}
	return in.Err()
}
