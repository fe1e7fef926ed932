package main

import (
	"testing"

	"github.com/userspace-rpc/erpc/kit/cli/secure/securetest"
)

// TestSecure: certificates and shared keys work, and everybody else gets one line.
func TestSecure(t *testing.T) {
	c := &securetest.Command{
		Run: func(args ...string) (int, string, string) { return try(t, args...) },
		Serve: func(flags ...string) string {
			addr, _ := serve(t, flags...)
			return "--servers=" + addr
		},
		Works:    []string{"put apple 5", "get apple", "load --keys=200", "scan"},
		Clients:  []string{"get apple", "bench --each=10ms --keys=200"},
		Mistakes: []string{"get apple", "serve --addr=127.0.0.1:0"},
	}
	c.All(t)
	c.Reload(t, childEnv, []string{"serve", "--json", "--addr=127.0.0.1:0"},
		func(addr string) string { return "--servers=" + addr })
}
