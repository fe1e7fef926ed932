package prometheus_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/metrics/prometheus"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// A program registers its Server, and serves the measurements over HTTP.
func Example() {
	server, err := erpc.NewServer(erpc.Config{})
	if err != nil {
		panic(err)
	}
	conn, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		panic(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(conn) }()

	own, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	caller, err := erpc.Dial(ctx, own, conn.LocalAddr().String(), erpc.Config{})
	if err != nil {
		panic(err)
	}

	names := map[uint8]string{1: "get", 2: "put"}
	registry := client.NewRegistry()
	registry.MustRegister(prometheus.New(prometheus.Config{
		TypeName: func(reqType uint8) string { return names[reqType] },
	}, server))
	// In a program: http.Handle("/metrics", ...) and http.ListenAndServe("127.0.0.1:9464", nil).
	web := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer web.Close()

	answer, err := http.Get(web.URL)
	if err != nil {
		panic(err)
	}
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if kind, ok := strings.CutPrefix(lines.Text(), "# TYPE erpc_sessions "); ok {
			fmt.Println(answer.Status, "erpc_sessions is a", kind)
		}
	}
	if err := errors.Join(caller.Close(), server.Close()); err != nil {
		panic(err)
	}
	<-ended
	// Output: 200 OK erpc_sessions is a gauge
}
