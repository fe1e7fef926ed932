package simhost_test

import (
	"fmt"
	"log"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/erpc/simhost"
	"github.com/userspace-rpc/erpc/transport/sim"
)

// A service in virtual time: its handler answers for real, and takes 5 us on a virtual core. The
// figures are the same in every run and on every machine.
func Example() {
	must := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	const greet = 1
	net, err := sim.New(sim.Config{Seed: 1, PropDelay: time.Microsecond})
	must(err)
	server, err := simhost.New(simhost.Config{Net: net,
		Cost: func(simhost.Work) time.Duration { return 5 * time.Microsecond }})
	must(err)
	must(server.Register(greet, erpc.Dispatch, func(r erpc.ReqHandle) {
		_ = r.RespondBytes(append([]byte("hello, "), r.Data()...))
	}))
	client, err := simhost.New(simhost.Config{Net: net})
	must(err)
	cores := func() *sim.Processor { // of a node
		p, err := net.NewProcessor(sim.ProcessorConfig{Cores: 1})
		must(err)
		return p
	}
	to, err := server.Loop(sim.EndpointConfig{Node: 0, Processor: cores()})
	must(err)
	from, err := client.Loop(sim.EndpointConfig{Node: 1, Processor: cores()})
	must(err)

	var session *erpc.Session
	from.Do(func() {
		session, err = from.Rpc().CreateSessionTo(to.Endpoint().LocalAddr())
		must(err)
	})
	net.RunUntil(net.Now().Add(time.Millisecond)) // it connects

	from.Do(func() {
		begin := net.Now()
		req, err := from.Rpc().Alloc(len("world"))
		must(err)
		copy(req.Data(), "world")
		_, err = from.Rpc().EnqueueRequest(session, erpc.Request{Type: greet, Req: req,
			Done: func(c erpc.Completion) {
				must(c.Err)
				fmt.Printf("%s after %v\n", c.Resp.Data(), net.Now().Sub(begin))
				c.Req.Free()
				c.Resp.Free()
			}})
		must(err)
	})
	net.RunUntil(net.Now().Add(time.Millisecond))
	client.Crash()
	server.Crash()
	must(client.Err())
	must(server.Err())
	// Output: hello, world after 9µs
}
