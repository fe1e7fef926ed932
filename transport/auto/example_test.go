package auto_test

import (
	"context"
	"fmt"
	"log"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/auto"
)

// One address for peers near and far: shared memory where the peer is on this machine and has it
// too, UDP otherwise. Only the calls to Listen name the transport.
func Example() {
	const echo = 1
	server, err := erpc.NewServer(erpc.Config{})
	if err != nil {
		log.Fatal(err)
	}
	err = server.Handle(echo, func(_ context.Context, b []byte) ([]byte, error) { return b, nil })
	if err != nil {
		log.Fatal(err)
	}
	conn, err := auto.Listen("127.0.0.1:0", auto.Config{})
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = server.Serve(conn) }() // ErrClosed after Close

	ctx := context.Background()
	local, err := auto.Listen("127.0.0.1:0", auto.Config{})
	if err != nil {
		log.Fatal(err)
	}
	client, err := erpc.Dial(ctx, local, conn.LocalAddr().String(), erpc.Config{})
	if err != nil {
		log.Fatal(err)
	}
	answer, err := client.Call(ctx, echo, []byte("near or far"))
	fmt.Println(string(answer), err)
	if err := client.Close(); err != nil {
		log.Fatal(err)
	}
	if err := server.Close(); err != nil {
		log.Fatal(err)
	}
	// Output: near or far <nil>
}
