package faulty_test

import (
	"context"
	"fmt"
	"log"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/faulty"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// A client behind a bad network: a tenth of its packets is lost, others come twice or late. Every
// call still ends with its answer, and its handler ran once.
func Example() {
	const count = 1
	server, err := erpc.NewServer(erpc.Config{})
	if err != nil {
		log.Fatal(err)
	}
	ran := 0
	err = server.HandleInline(count, func(r erpc.ReqHandle) { // in the loop: no lock needed
		ran++
		_ = r.RespondBytes(fmt.Append(nil, ran))
	})
	if err != nil {
		log.Fatal(err)
	}
	conn, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = server.Serve(conn) }() // ErrClosed after Close

	local, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		log.Fatal(err)
	}
	faults := faulty.Faults{Loss: 0.1, Dup: 0.1, Reorder: 0.1}
	bad, err := faulty.New(local, faulty.Config{Seed: 1, TX: faults, RX: faults})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	client, err := erpc.Dial(ctx, bad, conn.LocalAddr().String(), erpc.Config{})
	if err != nil {
		log.Fatal(err)
	}
	var last []byte
	for range 100 {
		if last, err = client.Call(ctx, count, nil); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("the handler ran", string(last), "times for 100 calls")
	if err := client.Close(); err != nil {
		log.Fatal(err)
	}
	if err := server.Close(); err != nil {
		log.Fatal(err)
	}
	// Output: the handler ran 100 times for 100 calls
}
