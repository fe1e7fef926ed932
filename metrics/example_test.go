package metrics_test

import (
	"context"
	"fmt"
	"log"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/metrics"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// An exporter of one's own: snapshots of a Server's loops, as named values.
func ExamplePoints() {
	server, err := erpc.NewServer(erpc.Config{})
	if err != nil {
		log.Fatal(err)
	}
	conn, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = server.Serve(conn) }() // ErrClosed after Close
	ctx := context.Background()
	local, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		log.Fatal(err)
	}
	client, err := erpc.Dial(ctx, local, conn.LocalAddr().String(), erpc.Config{})
	if err != nil {
		log.Fatal(err)
	}

	snaps := erpc.Snapshots(ctx, erpc.SnapshotOptions{}, server)
	for _, p := range metrics.Points(metrics.Options{}, snaps...) {
		if p.Metric.Name == "sessions" {
			fmt.Println(p.Metric.Name, p.Metric.Unit, p.Value, p.Endpoint == conn.LocalAddr().String())
		}
	}
	if err := client.Close(); err != nil {
		log.Fatal(err)
	}
	if err := server.Close(); err != nil {
		log.Fatal(err)
	}
	// Output: sessions {session} 1 true
}
