package rfp_test

import (
	"fmt"
	"log"
	"time"

	"github.com/userspace-rpc/erpc/rfp"
	"github.com/userspace-rpc/erpc/rfp/onesided/model"
)

// A call whose result the client fetches with a one-sided READ. Both sides run on adapters in
// virtual time; over memory files (rfp/onesided/shm) the calls are the same.
func Example() {
	geometry := rfp.Geometry{Slots: 4, Request: 256, Response: 256}
	server, err := rfp.NewServer(rfp.ServerConfig{Geometry: geometry})
	if err != nil {
		log.Fatal(err)
	}
	server.Handle(1, func(req, resp []byte) ([]byte, error) {
		return append(append(resp, "hello, "...), req...), nil
	})

	params := model.Paper()
	net := model.New(params, 1)
	a, b := net.Machine(params.Client), net.Machine(params.Server)
	near, far, err := model.Connect(a, b, rfp.ClientSpecs(geometry), rfp.ServerSpecs(geometry))
	if err != nil {
		log.Fatal(err)
	}
	client, err := rfp.NewClient(near, rfp.Config{Geometry: geometry})
	if err != nil {
		log.Fatal(err)
	}
	if err := server.Serve(far); err != nil {
		log.Fatal(err)
	}

	sent, done := false, false
	call := rfp.Call{Kind: 1, Body: []byte("reader"),
		Done: func(_ uint64, resp []byte, err error) {
			fmt.Println(string(resp), err)
			done = true
		}}
	for !done { // programs poll in a thread of either side
		net.RunUntil(net.Now().Add(time.Microsecond))
		server.Poll(8)
		client.Poll(net.Now())
		if client.Ready() && !sent { // it has read which life of the server this is
			sent = true
			if err := client.Send(&call); err != nil {
				log.Fatal(err)
			}
		}
	}
	// Output: hello, reader <nil>
}
