package erpc_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/userspace-rpc/erpc/erpc"
)

// Snapshots count what loops did, for any goroutine. Package metrics gives the values names.
func ExampleSnapshots() {
	const echo = 1
	server, addr := mustServe(echo, func(_ context.Context, b []byte) ([]byte, error) {
		return b, nil
	})
	// A Loop of one's own: those of Dial are shared, and count the calls of all their Clients.
	ctx := context.Background()
	loop, err := erpc.NewLoop(mustListen(), erpc.Config{})
	if err != nil {
		log.Fatal(err)
	}
	client, err := loop.Dial(ctx, addr)
	if err != nil {
		log.Fatal(err)
	}
	watch := func() *erpc.Snapshot {
		return erpc.Snapshots(ctx, erpc.SnapshotOptions{}, client)[0]
	}
	watch() // types are counted from the first snapshot on
	for range 3 {
		if _, err := client.Call(ctx, echo, []byte("four")); err != nil {
			log.Fatal(err)
		}
	}
	snap := watch()
	for _, t := range snap.Types {
		fmt.Println("type", t.Type, "calls", t.Client.Count(), "bytes", t.Client.Requests)
	}
	fmt.Println("failed", snap.Stats.Failed)

	closeAll(client, loop, server)
	// Output:
	// type 1 calls 3 bytes 12
	// failed 0
}

// The steps of one call, to see where its time went.
func ExampleWithCallTrace() {
	const echo = 1
	server, addr := mustServe(echo, func(_ context.Context, b []byte) ([]byte, error) {
		return b, nil
	})
	client := mustDial(addr, erpc.Config{})

	var trace erpc.CallTrace
	ctx := erpc.WithCallTrace(context.Background(), &trace)
	if _, err := client.Call(ctx, echo, []byte("x")); err != nil {
		log.Fatal(err)
	}
	fmt.Println(trace.Called <= trace.Enqueued, trace.Enqueued <= trace.Sent,
		trace.Sent <= trace.Answered, trace.Answered <= trace.Ended)
	fmt.Println(trace.Request, trace.Response, trace.Code)

	closeAll(client, server)
	// Output:
	// true true true true
	// 1 1 OK
}

// A recorder keeps a loop's last datagrams. Its dump shows the calls in them.
func ExampleRpc_Flight() {
	const echo = 1
	server, addr := mustServe(echo, func(_ context.Context, b []byte) ([]byte, error) {
		return b, nil
	})
	client := mustDial(addr, erpc.Config{})
	ctx := context.Background()
	loop := client.Rpcs()[0]
	if err := loop.Record(ctx, 100); err != nil {
		log.Fatal(err)
	}
	if _, err := client.Call(ctx, echo, []byte("x")); err != nil {
		log.Fatal(err)
	}
	dump, err := loop.Flight(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range dump.Calls() {
		fmt.Println("type", c.Type, "answered", c.Answer > 0)
	}

	closeAll(client, server)
	// Output: type 1 answered true
}

// A bad configuration is an error that names the field.
func ExampleConfigError() {
	_, err := erpc.NewServer(erpc.Config{Burst: -1})
	var e *erpc.ConfigError
	fmt.Println(errors.As(err, &e), errors.Is(err, erpc.ErrConfig))
	fmt.Println(e.Field)
	// Output:
	// true true
	// Burst
}
