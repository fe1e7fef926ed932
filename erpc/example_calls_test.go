package erpc_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/netip"
	"sync"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// A handler's error has a code, a text and details. The client finds all three.
func ExampleError() {
	const price = 1
	server, addr := mustServe(price, func(_ context.Context, fruit []byte) ([]byte, error) {
		return nil, &erpc.Error{
			Code: erpc.CodeNotFound, Text: "no " + string(fruit), Details: []byte("try pears"),
		}
	})
	client := mustDial(addr, erpc.Config{})

	_, err := client.Call(context.Background(), price, []byte("figs"))
	var e *erpc.Error
	if errors.As(err, &e) {
		fmt.Printf("%v, %s, %s\n", e.Code, e.Text, e.Details)
	}
	fmt.Println(errors.Is(err, erpc.ErrNotRun)) // the handler ran

	closeAll(client, server)
	// Output:
	// NOT_FOUND, no figs, try pears
	// false
}

// After an error that matches ErrNotRun a request can be sent again without harm. After
// others the server may have run it.
func Example_notRun() {
	conn := mustListen() // bound, so nobody else answers there; and nobody serves it
	config := erpc.Config{Timing: erpc.Timing{ConnectTimeout: 50 * time.Millisecond}}
	_, err := erpc.Dial(context.Background(), mustListen(), conn.LocalAddr().String(), config)
	fmt.Println(errors.Is(err, erpc.ErrConnect), errors.Is(err, erpc.ErrNotRun))

	server, addr := mustServe(1, func(context.Context, []byte) ([]byte, error) { return nil, nil })
	client := mustDial(addr, erpc.Config{})
	_, err = client.Call(context.Background(), 2, nil) // a type without a handler
	fmt.Println(errors.Is(err, erpc.ErrNoHandler), errors.Is(err, erpc.ErrNotRun))

	closeAll(client, server, conn)
	// Output:
	// true true
	// true true
}

// Start makes a call without a goroutine that waits: its function runs in the event loop.
func ExampleClient_Start() {
	const double = 1
	server, addr := mustServe(double, func(_ context.Context, b []byte) ([]byte, error) {
		return append(b, b...), nil
	})
	client := mustDial(addr, erpc.Config{})

	var wg sync.WaitGroup
	answers := make([]string, 3)
	for i := range answers {
		wg.Add(1)
		err := client.Start(double, fmt.Append(nil, i), func(response []byte, err error) {
			if err == nil {
				answers[i] = string(response) // a copy: the response is the library's
			}
			wg.Done()
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	wg.Wait()
	fmt.Println(answers)

	closeAll(client, server)
	// Output: [00 11 22]
}

// AppendCall appends the response to a buffer of the caller, which the next call can use again.
func ExampleClient_AppendCall() {
	const echo = 1
	server, addr := mustServe(echo, func(_ context.Context, b []byte) ([]byte, error) {
		return b, nil
	})
	client := mustDial(addr, erpc.Config{})

	buf := make([]byte, 0, 64)
	for _, word := range []string{"one", "two"} {
		var err error
		buf, err = client.AppendCall(context.Background(), buf[:0], echo, []byte(word))
		fmt.Println(string(buf), err, cap(buf) == 64)
	}

	closeAll(client, server)
	// Output:
	// one <nil> true
	// two <nil> true
}

// A handler of HandleLater keeps its request and returns. Another goroutine answers later, so
// many requests can wait for one event without a goroutine each.
func ExampleServer_HandleLater() {
	const next = 1
	waiting := make(chan erpc.ReqHandle, 1)
	server, err := erpc.NewServer(erpc.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if err := server.HandleLater(next, func(r erpc.ReqHandle) { waiting <- r }); err != nil {
		log.Fatal(err)
	}
	conn := mustListen()
	go func() { _ = server.Serve(conn) }()
	go func() {
		r := <-waiting
		_ = r.RespondBytes([]byte("it happened"))
	}()
	client := mustDial(conn.LocalAddr().String(), erpc.Config{})
	answer, err := client.Call(context.Background(), next, nil)
	fmt.Println(string(answer), err)

	closeAll(client, server)
	// Output: it happened <nil>
}

// The deadline of a caller reaches the handler, less the time that the request took.
func ExampleServer_Handle_deadline() {
	const left = 1
	server, addr := mustServe(left, func(ctx context.Context, _ []byte) ([]byte, error) {
		at, ok := ctx.Deadline()
		return fmt.Append(nil, ok, time.Until(at) > 50*time.Second), nil
	})
	client := mustDial(addr, erpc.Config{})

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	answer, err := client.Call(ctx, left, nil)
	fmt.Println(string(answer), err)

	closeAll(client, server)
	// Output: true true <nil>
}

// HandleFrom gives a Server's handler the request behind its context, for the peer's address.
func ExampleHandleFrom() {
	const whoAmI = 1
	server, addr := mustServe(whoAmI, func(ctx context.Context, _ []byte) ([]byte, error) {
		r, ok := erpc.HandleFrom(ctx)
		if !ok {
			return nil, errors.New("not called by a Server")
		}
		return []byte(r.Peer().String()), nil
	})
	client := mustDial(addr, erpc.Config{})
	answer, err := client.Call(context.Background(), whoAmI, nil)
	fmt.Println(netip.MustParseAddrPort(string(answer)).Addr(), err)

	closeAll(client, server)
	// Output: 127.0.0.1 <nil>
}

// Several event loops on one address: each has a socket, and the kernel steers packets to the
// loop of their session. Clients see one server. It needs Linux.
func ExampleServer_ServeGroup() {
	const echo = 1
	server, err := erpc.NewServer(erpc.Config{})
	if err != nil {
		log.Fatal(err)
	}
	err = server.Handle(echo, func(_ context.Context, b []byte) ([]byte, error) { return b, nil })
	if err != nil {
		log.Fatal(err)
	}
	conns, err := udp.ListenGroup("127.0.0.1:0", 2, udp.Config{})
	if err != nil {
		fmt.Println("ok <nil>") // another system
		return
	}
	group := make([]transport.Transport, len(conns))
	for i, c := range conns {
		group[i] = c
	}
	go func() { _ = server.ServeGroup(group) }()
	client := mustDial(conns[0].LocalAddr().String(), erpc.Config{})
	answer, err := client.Call(context.Background(), echo, []byte("ok"))
	fmt.Println(string(answer), err)

	closeAll(client, server)
	// Output: ok <nil>
}

// RegisterBatch of a Nexus gives a handler all requests of its type in a burst, in the loop.
func ExampleNexus_RegisterBatch() {
	const square = 1
	nexus, err := erpc.NewNexus(erpc.Config{})
	if err != nil {
		log.Fatal(err)
	}
	largest := 0
	err = nexus.RegisterBatch(square, func(reqs []erpc.ReqHandle) {
		largest = max(largest, len(reqs))
		for _, r := range reqs {
			n := r.Data()[0]
			_ = r.RespondBytes([]byte{n * n})
		}
	})
	if err != nil {
		log.Fatal(err)
	}
	server, client := mustRpc(nexus), mustRpc(nexus)
	session, err := client.CreateSession(server.LocalAddr().String())
	if err != nil {
		log.Fatal(err)
	}
	done, ended, sum := false, 0, 0
	for n := range byte(8) {
		req, err := client.Alloc(1)
		if err != nil {
			log.Fatal(err)
		}
		req.Data()[0] = n
		_, err = client.EnqueueRequest(session, erpc.Request{
			Type: square, Req: req, Timeout: 10 * time.Second,
			Done: func(c erpc.Completion) {
				if c.Err != nil {
					log.Fatal(c.Err)
				}
				sum += int(c.Resp.Data()[0])
				ended++
				done = ended == 8
				c.Req.Free()
				c.Resp.Free()
			}})
		if err != nil {
			log.Fatal(err)
		}
	}
	step(&done, server, client)
	fmt.Println("sum", sum, "several at once:", largest > 1)
	mustClose(nexus, client, server)
	// Output: sum 140 several at once: true
}

func mustDial(addr string, config erpc.Config) *erpc.Client {
	client, err := erpc.Dial(context.Background(), mustListen(), addr, config)
	if err != nil {
		log.Fatal(err)
	}
	return client
}

// closeAll closes in this order: clients before servers.
func closeAll(list ...interface{ Close() error }) {
	for _, c := range list {
		if err := c.Close(); err != nil {
			log.Fatal(err)
		}
	}
}
