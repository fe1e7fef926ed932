package prometheus_test

import (
	"net/http"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/metrics/prometheus"
)

// A program registers its Server, and serves the measurements over HTTP.
func Example() {
	server, err := erpc.NewServer(erpc.Config{})
	if err != nil {
		panic(err)
	}
	defer server.Close()
	names := map[uint8]string{1: "get", 2: "put"}
	client.MustRegister(prometheus.New(prometheus.Config{
		TypeName: func(reqType uint8) string { return names[reqType] },
	}, server))
	http.Handle("/metrics", promhttp.Handler())
	// Then: http.ListenAndServe("127.0.0.1:9464", nil), and server.Serve(transport).
}
