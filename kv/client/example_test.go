package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kv/client"
	"github.com/userspace-rpc/erpc/kv/mica"
	"github.com/userspace-rpc/erpc/kv/server"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// A cache of two partitions, an event loop each, and a client for any number of goroutines.
func Example() {
	listen := func() transport.Transport {
		conn, err := udp.Listen("127.0.0.1:0", udp.Config{})
		if err != nil {
			log.Fatal(err)
		}
		return conn
	}
	must := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	srv, err := server.New(server.Config{Partitions: 2, Store: mica.Config{Memory: 1 << 20}})
	must(err)
	conns := []transport.Transport{listen(), listen()}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(conns) }()

	loop, err := erpc.NewLoop(listen(), erpc.Config{})
	must(err)
	ctx := context.Background()
	servers := []string{conns[0].LocalAddr().String()} // one address of each server
	c, err := client.New(ctx, loop, client.Config{Servers: servers})
	must(err)

	_, err = c.Put(ctx, []byte("greeting"), []byte("hello"))
	must(err)
	value, err := c.Get(ctx, []byte("greeting"))
	fmt.Println(string(value.Value), err)
	_, err = c.Get(ctx, []byte("nothing"))
	fmt.Println(err)

	must(c.Close())
	must(loop.Close())
	must(srv.Close())
	<-served
	// Output:
	// hello <nil>
	// mica: the key is not there
}
