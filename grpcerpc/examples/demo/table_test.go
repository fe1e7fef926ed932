package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

// TestKinds: calls of each kind go over what it is named for.
func TestKinds(t *testing.T) {
	for kind, network := range map[int]string{
		tcpKind: "tcp", unixKind: "unix", udpKind: "udp", shmKind: "shm",
	} {
		addr, err := serve(kind, t.TempDir())
		if err != nil {
			t.Fatalf("%s: %v", kinds[kind], err)
		}
		cc, err := dial(kind, addr.String())
		if err != nil {
			t.Fatalf("%s: %v", kinds[kind], err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		var p peer.Peer
		_, err = pb.NewGreeterClient(cc).SayHello(ctx, &pb.HelloRequest{}, grpc.Peer(&p))
		cancel()
		if err != nil || p.Addr.Network() != network {
			t.Errorf("%s: over %v, %v", kinds[kind], p.Addr, err)
		}
		if err := cc.Close(); err != nil {
			t.Errorf("%s: %v", kinds[kind], err)
		}
	}
}

// TestColumns: a kind is measured if one of the rows needs it.
func TestColumns(t *testing.T) {
	all := []int{tcpKind, unixKind, udpKind, shmKind}
	for _, v := range []struct {
		options options
		kinds   []int
		rows    []int
	}{
		{options{}, all, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
		{options{only: "unix"}, []int{unixKind, shmKind}, []int{1}},
		{options{only: "one caller"}, all, []int{0, 1}},
		{options{only: "20,000"}, []int{tcpKind, udpKind, shmKind}, []int{8}},
		{options{only: "ping-pong", bare: true}, []int{tcpKind, udpKind, shmKind, bareKind}, []int{5}},
	} {
		b := newBench(&v.options)
		if !slices.Equal(b.kinds, v.kinds) || !slices.Equal(b.rows, v.rows) {
			t.Errorf("%+v: kinds %v, rows %v", v.options, b.kinds, b.rows)
		}
	}
}

// TestPrint: ratios are to the row's base, round by round, and bars are limits of them.
func TestPrint(t *testing.T) {
	const tcp, unix, udp, shm, bare = tcpKind, unixKind, udpKind, shmKind, bareKind
	const unixRow, oneCaller = "one caller, 32 B, unix: us", "one caller, 32 B: us"
	for _, v := range []struct {
		row     string
		options options
		value   map[int][]float64
		want    string
	}{
		{unixRow, options{only: "unix", bars: true},
			map[int][]float64{unix: {50, 100, 80}, shm: {5, 10, 8}},
			unixRow + "|80|8 (0.10x, 0.10-0.10)|\nCPU us|8.0|0.8 (0.10x) bar 0.10 met|\n"},
		{unixRow, options{only: "unix", bars: true},
			map[int][]float64{unix: {50, 100, 80}, shm: {3, 11, 9}},
			unixRow + "|80|9 (0.11x, 0.06-0.11)|\nCPU us|8.0|0.9 (0.11x) bar 0.10 MISSED|\n"},
		{oneCaller, options{bars: true},
			map[int][]float64{tcp: {40}, udp: {10}, shm: {11}},
			oneCaller + "|40||10 (0.25x, 0.25-0.25)|11 (0.28x, 0.28-0.28)|\n" +
				"CPU us|4.0||1.0 (0.25x) bar 0.25 met|1.1 (0.28x) bar 0.25 MISSED|\n"},
		{oneCaller, options{},
			map[int][]float64{tcp: {40}, udp: {10}, shm: {4}},
			oneCaller + "|40||10 (0.25x)|4 (0.10x)|\n"},
		{"64 streams, ping-pong: msgs/s", options{only: "ping-pong", bare: true, bars: true},
			map[int][]float64{tcp: {10}, udp: {30}, shm: {29}, bare: {90}},
			"64 streams, ping-pong: msgs/s|10|30 (3.00x, 3.00-3.00)|29 (2.90x, 2.90-2.90)|" +
				"90 (9.00x, 9.00-9.00)|\nCPU us|1.0|3.0 (3.00x) bar 3.00 met|" +
				"2.9 (2.90x) bar 3.00 MISSED|9.0 (9.00x)|\n"},
		{"20,000 calls/s, p99: us", options{only: "20,000", bars: true},
			map[int][]float64{tcp: {10}, udp: {5}, shm: {6}}, // and CPU in the same ratios
			"20,000 calls/s, p99: us|10|5 (0.50x, 0.50-0.50)|6 (0.60x, 0.60-0.60)|\n" +
				"CPU us|1.0|0.5 (0.50x) bar 1.00, CPU 0.50 met|" +
				"0.6 (0.60x) bar 1.00, CPU 0.50 MISSED|\n"},
		{"64 callers, 32 B: calls/s", options{only: "callers, 32 B", bars: true},
			map[int][]float64{tcp: {100}, udp: {20}, shm: {700}}, // CPU or rate alone is good
			"64 callers, 32 B: calls/s|100|20 (0.20x, 0.20-0.20)|700 (7.00x, 7.00-7.00)|\n" +
				"CPU us|10.0|2.0 (0.20x) bar 5.00, CPU 0.25 MISSED|" +
				"70.0 (7.00x) bar 6.00, CPU 0.25 MISSED|\n"},
	} {
		b := newBench(&v.options)
		at := slices.IndexFunc(rows, func(r row) bool { return r.name == v.row })
		if at < 0 {
			t.Fatalf("no row %q", v.row)
		}
		var all [len(kinds)]measured
		for kind, list := range v.value {
			all[kind].value = list
			for _, x := range list {
				all[kind].cpu = append(all[kind].cpu, x/10)
			}
		}
		var out strings.Builder
		b.print(&out, &rows[at], all)
		if got := strings.ReplaceAll(out.String(), "\t", "|"); got != v.want {
			t.Errorf("%s, %+v:\n%swant\n%s", v.row, v.options, got, v.want)
		}
	}
	b := newBench(&options{only: "unix"})
	var out strings.Builder
	b.printHead(&out)
	if want := fmt.Sprintf("\t%s\t%s\t\n", kinds[unix], kinds[shm]); out.String() != want {
		t.Errorf("head %q, want %q", &out, want)
	}
}
