package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/index"
	"github.com/userspace-rpc/erpc/index/client"
	"github.com/userspace-rpc/erpc/index/server"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// An index server and its client. With several servers each has a range of the keys.
func Example() {
	must := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	srv, err := erpc.NewServer(erpc.Config{})
	must(err)
	must(server.New(index.NewMap(), server.Config{}).Handle(srv))
	conn, err := udp.Listen("127.0.0.1:0", udp.Config{})
	must(err)
	go func() { _ = srv.Serve(conn) }() // ErrClosed after Close

	ctx := context.Background()
	local, err := udp.Listen("127.0.0.1:0", udp.Config{})
	must(err)
	calls, err := erpc.Dial(ctx, local, conn.LocalAddr().String(), erpc.Config{})
	must(err)
	c, err := client.New(client.One[client.Caller](calls))
	must(err)

	for i, key := range []string{"berlin", "paris", "rome"} {
		_, _, err := c.Put(ctx, []byte(key), uint64(i))
		must(err)
	}
	value, ok, err := c.Get(ctx, []byte("paris"))
	fmt.Println(value, ok, err)
	_, err = c.Scan(ctx, []byte("c"), 10, func(key []byte, value uint64) bool {
		fmt.Println(string(key), value)
		return true
	})
	must(err)
	must(calls.Close())
	must(srv.Close())
	// Output:
	// 1 true <nil>
	// paris 1
	// rome 2
}
