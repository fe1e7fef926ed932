package main

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/userspace-rpc/erpc/grpcerpc"
	"github.com/userspace-rpc/erpc/transport/auto"
)

// serve runs a server with the health service, which describes itself if it is to.
func serve(t *testing.T, describes bool) (addr string) {
	t.Helper()
	s := grpcerpc.NewServer()
	grpc_health_v1.RegisterHealthServer(s, health.NewServer())
	if describes {
		reflection.Register(s)
	}
	tr, err := auto.Listen("127.0.0.1:0", auto.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(tr) }()
	t.Cleanup(func() {
		s.Stop()
		<-ended
	})
	return tr.LocalAddr().String()
}

// TestRun: methods are called by their description; each mistake says what is wrong.
func TestRun(t *testing.T) {
	addr, mute := serve(t, true), serve(t, false)
	const check = "/grpc.health.v1.Health/Check"
	for _, x := range []struct {
		args, in, out, err string
		usage              bool
	}{
		{args: "list " + addr, out: "grpc.health.v1.Health\n"},
		{args: "call " + addr + " " + check, out: "SERVING"},
		{args: "call " + addr + " " + check + ` {"service":""}`, out: "SERVING"},
		{args: "call " + addr + " " + check + " -", in: `{}`, out: "SERVING"},
		{args: "call " + addr + " " + check + ` {"service":"x"}`, err: "unknown service"},
		{args: "call " + addr + " " + check + ` {"nothing":1}`, err: "nothing", usage: true},
		{args: "call --timeout 300ms " + addr + " /grpc.health.v1.Health/Watch", out: "SERVING",
			err: "rpc error: code = "}, // its deadline's, or the server's, whose watch ends with it
		{args: "call " + addr + " /grpc.health.v1.Health/Chekc", err: "no method Chekc"},
		{args: "call " + addr + " /no.Service/M", err: "no.Service"},
		{args: "call " + addr + " Check", err: "no method", usage: true},
		{args: "call " + mute + " " + check, err: "reflection.Register"},
		{args: "call " + addr, err: "usage", usage: true},
		{args: "", err: "usage", usage: true},
		{args: "call --bad", err: "usage", usage: true},
	} {
		var out strings.Builder
		err := run(t.Context(), strings.Fields(x.args), strings.NewReader(x.in), &out)
		if !strings.Contains(out.String(), x.out) || (err == nil) != (x.err == "") ||
			err != nil && !strings.Contains(err.Error(), x.err) || errors.Is(err, errUsage) != x.usage {
			t.Errorf("%s: %q, %v", x.args, &out, err)
		}
	}
}
