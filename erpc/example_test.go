package erpc_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// A server and a client in one program. Client.Call may be used from any number of
// goroutines, and so may a Server's handlers run.
func Example() {
	const greet = 1 // a request type, 0 to 254

	server, err := erpc.NewServer(erpc.Config{})
	if err != nil {
		log.Fatal(err)
	}
	err = server.Handle(greet, func(_ context.Context, name []byte) ([]byte, error) {
		return fmt.Appendf(nil, "Hello, %s!", name), nil
	})
	if err != nil {
		log.Fatal(err)
	}
	conn, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = server.Serve(conn) }() // ErrClosed after Shutdown

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	local, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		log.Fatal(err)
	}
	client, err := erpc.Dial(ctx, local, conn.LocalAddr().String(), erpc.Config{})
	if err != nil {
		log.Fatal(err)
	}
	answer, err := client.Call(ctx, greet, []byte("gopher"))
	fmt.Println(string(answer), err)

	if err := errors.Join(client.Close(), server.Shutdown(ctx)); err != nil {
		log.Fatal(err)
	}
	// Output: Hello, gopher! <nil>
}

// A deadline ends a call whose handler takes too long. The server may have run the
// request: the error says only that the answer did not come in time.
func ExampleClient_Call_deadline() {
	const slow = 1
	server, err := erpc.NewServer(erpc.Config{})
	if err != nil {
		log.Fatal(err)
	}
	err = server.Handle(slow, func(ctx context.Context, _ []byte) ([]byte, error) {
		<-ctx.Done() // the caller's deadline
		return nil, ctx.Err()
	})
	if err != nil {
		log.Fatal(err)
	}
	conn := mustListen()
	go func() { _ = server.Serve(conn) }()
	client, err := erpc.Dial(context.Background(), mustListen(), conn.LocalAddr().String(),
		erpc.Config{})
	if err != nil {
		log.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err = client.Call(ctx, slow, nil)
	fmt.Println(errors.Is(err, erpc.ErrDeadline), errors.Is(err, context.DeadlineExceeded))

	if err := errors.Join(client.Close(), server.Close()); err != nil {
		log.Fatal(err)
	}
	// Output: true true
}

// Clients of many servers share a Loop: one socket and one goroutine.
func ExampleLoop() {
	const name = 1
	loop, err := erpc.NewLoop(mustListen(), erpc.Config{})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, answer := range []string{"north", "south"} {
		server, addr := mustServe(name, func(context.Context, []byte) ([]byte, error) {
			return []byte(answer), nil
		})
		client, err := loop.Dial(ctx, addr)
		if err != nil {
			log.Fatal(err)
		}
		got, err := client.Call(ctx, name, nil)
		fmt.Println(string(got), err)
		if err := errors.Join(client.Close(), server.Close()); err != nil {
			log.Fatal(err)
		}
	}
	if err := loop.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// north <nil>
	// south <nil>
}

// A Pool calls several servers. One of them stops; its calls go to the other one.
func ExamplePool() {
	const name = 1
	var servers []*erpc.Server
	var addrs []string
	for range 2 {
		server, addr := mustServe(name, func(context.Context, []byte) ([]byte, error) {
			return []byte("here"), nil
		})
		servers, addrs = append(servers, server), append(addrs, addr)
	}
	loop, err := erpc.NewLoop(mustListen(), erpc.Config{})
	if err != nil {
		log.Fatal(err)
	}
	pool, err := erpc.NewPool(erpc.PoolConfig{Servers: addrs}, loop)
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	options := erpc.CallOptions{WaitForReady: true, Repeat: true}
	answer, err := pool.CallWith(ctx, options, nil, name, nil)
	fmt.Println(string(answer), err)

	if err := servers[0].Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	answer, err = pool.CallWith(ctx, options, nil, name, nil)
	fmt.Println(string(answer), err)

	if err := errors.Join(pool.Close(), loop.Close(), servers[1].Close()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// here <nil>
	// here <nil>
}

// The event-loop API: each Rpc belongs to one goroutine, which calls RunOnce or Run.
// Here one goroutine steps two of them, and a continuation gets the answer. Requests
// and responses are written in place, in memory that the library sends from.
func ExampleRpc() {
	const upper = 1
	nexus, err := erpc.NewNexus(erpc.Config{})
	if err != nil {
		log.Fatal(err)
	}
	err = nexus.Register(upper, erpc.Dispatch, func(r erpc.ReqHandle) {
		_ = r.RespondBytes([]byte(strings.ToUpper(string(r.Data()))))
	})
	if err != nil {
		log.Fatal(err)
	}
	server, client := mustRpc(nexus), mustRpc(nexus)

	session, err := client.CreateSession(server.LocalAddr().String())
	if err != nil {
		log.Fatal(err)
	}
	req, err := client.Alloc(len("quiet"))
	if err != nil {
		log.Fatal(err)
	}
	copy(req.Data(), "quiet")

	done := false
	_, err = client.EnqueueRequest(session, erpc.Request{
		Type:    upper,
		Req:     req,
		Timeout: 10 * time.Second,
		Done: func(c erpc.Completion) { // runs inside client.RunOnce
			done = true
			if c.Err != nil {
				log.Fatal(c.Err)
			}
			fmt.Printf("%s -> %s\n", c.Req.Data(), c.Resp.Data())
			c.Req.Free()
			c.Resp.Free()
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	step(&done, server, client)
	mustClose(nexus, client, server)
	// Output: quiet -> QUIET
}

// Handlers by the burst: all requests for a type that came together, in one call, while their data
// is still in the receive ring. A lookup can ask for the memory of all of them before it reads any.
func ExampleServer_HandleBatch() {
	const price = 1
	prices := map[string]string{"pear": "0.30", "plum": "0.20"}
	server, err := erpc.NewServer(erpc.Config{})
	if err != nil {
		log.Fatal(err)
	}
	err = server.HandleBatch(price, func(reqs []erpc.ReqHandle) { // in the event loop: must not block
		for _, r := range reqs {
			if p, ok := prices[string(r.Data())]; ok {
				_ = r.RespondBytes([]byte(p))
			} else {
				_ = r.RespondError(&erpc.Error{Code: erpc.CodeNotFound, Text: "no such fruit"})
			}
		}
	})
	if err != nil {
		log.Fatal(err)
	}
	conn := mustListen()
	go func() { _ = server.Serve(conn) }()
	addr := conn.LocalAddr().String()
	client, err := erpc.Dial(context.Background(), mustListen(), addr, erpc.Config{})
	if err != nil {
		log.Fatal(err)
	}
	for _, fruit := range []string{"pear", "plum", "fig"} {
		answer, err := client.Call(context.Background(), price, []byte(fruit))
		fmt.Println(fruit, string(answer), err)
	}

	if err := errors.Join(client.Close(), server.Close()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// pear 0.30 <nil>
	// plum 0.20 <nil>
	// fig  no such fruit
}

// A timer in the loop. One that sets itself again is a ticker, and needs no goroutine.
func ExampleRpc_AfterFunc() {
	nexus, err := erpc.NewNexus(erpc.Config{})
	if err != nil {
		log.Fatal(err)
	}
	r := mustRpc(nexus)
	ticks := 0
	var tick *erpc.Timer
	tick, err = r.AfterFunc(time.Millisecond, func() { // runs inside r.Run
		ticks++
		fmt.Println("tick", ticks)
		_ = tick.Reset(time.Millisecond)
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := r.Run(func() bool { return ticks == 3 }); err != nil {
		log.Fatal(err)
	}
	mustClose(nexus, r)
	// Output:
	// tick 1
	// tick 2
	// tick 3
}

// A nested RPC: the front server's handler returns without an answer, and answers
// when the back server has. The handle is a small value and may be kept.
func ExampleReqHandle() {
	const lookup, ask = 1, 2
	nexus, err := erpc.NewNexus(erpc.Config{})
	if err != nil {
		log.Fatal(err)
	}
	var toBack *erpc.Session
	register := func(typ uint8, h erpc.Handler) {
		if err := nexus.Register(typ, erpc.Dispatch, h); err != nil {
			log.Fatal(err)
		}
	}
	register(lookup, func(r erpc.ReqHandle) { _ = r.RespondBytes([]byte("42")) })
	register(ask, func(r erpc.ReqHandle) {
		call(r.Rpc(), toBack, lookup, string(r.Data()), func(answer string) {
			_ = r.RespondBytes([]byte("back says " + answer))
		})
	})
	back, front, client := mustRpc(nexus), mustRpc(nexus), mustRpc(nexus)
	if toBack, err = front.CreateSession(back.LocalAddr().String()); err != nil {
		log.Fatal(err)
	}
	toFront, err := client.CreateSession(front.LocalAddr().String())
	if err != nil {
		log.Fatal(err)
	}

	done := false
	call(client, toFront, ask, "the question", func(answer string) {
		fmt.Println(answer)
		done = true
	})
	step(&done, client, front, back)
	mustClose(nexus, client, front, back)
	// Output: back says 42
}

// call sends text and gives the answer to then.
func call(r *erpc.Rpc, s *erpc.Session, typ uint8, text string, then func(answer string)) {
	req, err := r.Alloc(len(text))
	if err != nil {
		log.Fatal(err)
	}
	copy(req.Data(), text)
	_, err = r.EnqueueRequest(s,
		erpc.Request{Type: typ, Req: req, Timeout: 10 * time.Second, Done: func(c erpc.Completion) {
			if c.Err != nil {
				log.Fatal(c.Err)
			}
			then(string(c.Resp.Data()))
			c.Req.Free()
			c.Resp.Free()
		}})
	if err != nil {
		log.Fatal(err)
	}
}

// step runs the event loops of rpcs in turn until done is true.
func step(done *bool, rpcs ...*erpc.Rpc) {
	for !*done {
		for _, r := range rpcs {
			if _, err := r.RunOnce(); err != nil {
				log.Fatal(err)
			}
		}
	}
}

// mustServe serves fn for requests of one type, and returns the server's address.
func mustServe(reqType uint8, fn erpc.Func) (*erpc.Server, string) {
	server, err := erpc.NewServer(erpc.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if err := server.Handle(reqType, fn); err != nil {
		log.Fatal(err)
	}
	conn := mustListen()
	go func() { _ = server.Serve(conn) }() // ErrClosed after Close
	return server, conn.LocalAddr().String()
}

func mustListen() transport.Transport {
	conn, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		log.Fatal(err)
	}
	return conn
}

func mustRpc(n *erpc.Nexus) *erpc.Rpc {
	r, err := n.NewRpc(mustListen())
	if err != nil {
		log.Fatal(err)
	}
	return r
}

func mustClose(n *erpc.Nexus, rpcs ...*erpc.Rpc) {
	for _, r := range rpcs {
		if err := r.Close(); err != nil {
			log.Fatal(err)
		}
	}
	if err := n.Close(); err != nil {
		log.Fatal(err)
	}
}
