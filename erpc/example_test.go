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
		<-ctx.Done() // until the server closes
		return nil, ctx.Err()
	})
	if err != nil {
		log.Fatal(err)
	}
	conn := mustListen()
	go func() { _ = server.Serve(conn) }()
	client, err := erpc.Dial(context.Background(), mustListen(), conn.LocalAddr().String(), erpc.Config{})
	if err != nil {
		log.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err = client.Call(ctx, slow, nil)
	fmt.Println(err)
	fmt.Println(errors.Is(err, erpc.ErrDeadline), errors.Is(err, context.DeadlineExceeded))

	if err := errors.Join(client.Close(), server.Close()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// deadline exceeded: context deadline exceeded
	// true true
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
	_, err = r.EnqueueRequest(s, erpc.Request{Type: typ, Req: req, Timeout: 10 * time.Second, Done: func(c erpc.Completion) {
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
