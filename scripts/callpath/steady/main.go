package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/coverage"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// Types of requests.
const (
	typeEcho = iota + 1
	typeClear
	typeWrite
)

func main() {
	var err error
	switch {
	case len(os.Args) == 2 && os.Args[1] == "server":
		err = serve()
	case len(os.Args) == 3 && os.Args[1] == "client":
		err = call(os.Args[2])
	default:
		err = errors.New("usage: steady server | steady client ADDRESS")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "steady:", err)
		os.Exit(1)
	}
}

// write writes the counters, and what they count.
func write() error {
	dir := os.Getenv("COUNTERS")
	return errors.Join(coverage.WriteMetaDir(dir), coverage.WriteCountersDir(dir))
}

func serve() error {
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		return err
	}
	srv, err := erpc.NewServer(erpc.Config{})
	if err != nil {
		return err
	}
	for typ, then := range map[uint8]func() error{
		typeEcho: func() error { return nil }, typeClear: coverage.ClearCounters, typeWrite: write,
	} {
		err = srv.Handle(typ, func(_ context.Context, b []byte) ([]byte, error) { return b, then() })
		if err != nil {
			return err
		}
	}
	fmt.Println(tr.LocalAddr())
	served := make(chan error, 1)
	go func() { served <- srv.Serve(tr) }()
	_, err = io.Copy(io.Discard, os.Stdin)
	err = errors.Join(err, srv.Close())
	if e := <-served; !errors.Is(e, erpc.ErrClosed) {
		err = errors.Join(err, e)
	}
	return err
}

func call(addr string) error {
	ctx := context.Background()
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		return err
	}
	c, err := erpc.Dial(ctx, tr, addr, erpc.Config{})
	if err != nil {
		return err
	}
	defer c.Close()
	req := make([]byte, 32)
	for range 1000 {
		if _, err = c.Call(ctx, typeEcho, req); err != nil {
			return err
		}
	}
	if _, err = c.Call(ctx, typeClear, req); err != nil {
		return err
	}
	if err = coverage.ClearCounters(); err != nil {
		return err
	}
	_, err = c.Call(ctx, typeEcho, req)
	if err = errors.Join(err, write()); err != nil {
		return err
	}
	_, err = c.Call(ctx, typeWrite, req)
	return err
}
