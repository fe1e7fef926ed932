package main

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/cli/secure/securetest"
)

// TestSecure: certificates and shared keys work between clients and replicas, and between replicas;
// everybody else gets one line.
func TestSecure(t *testing.T) {
	c := &securetest.Command{
		Run: func(args ...string) (int, string, string) { return runCommand(t, args...) },
		Serve: func(flags ...string) string {
			return "--servers=" + strings.Join(serveThree(t, flags), ",")
		},
		Works: []string{"put apple red --timeout=60s", "get apple --timeout=60s",
			"status --timeout=60s"},
		Clients: []string{"get apple --timeout=60s", "put apple red --timeout=60s",
			"status --timeout=60s"},
		Mistakes: []string{"get apple", "status", "server --id=1 --addr=127.0.0.1:0 --join",
			"cluster", "demo"},
	}
	c.All(t)
	addrs, err := freeAddrs(1)
	if err != nil {
		t.Fatal(err)
	}
	c.Works, c.Clients = []string{"put apple red --timeout=60s"}, []string{"get apple --timeout=60s"}
	c.Reload(t, nil, []string{"server", "--json", "--id=1", "--addr=" + addrs[0],
		"--peers=1=" + addrs[0]}, func(addr string) string { return "--servers=" + addr })
}

// serveThree runs three replicas in this process until the test ends.
func serveThree(t *testing.T, flags []string) []string {
	t.Helper()
	addrs, err := freeAddrs(3)
	if err != nil {
		t.Fatal(err)
	}
	peers := "--peers=1=" + addrs[0] + ",2=" + addrs[1] + ",3=" + addrs[2]
	for i, addr := range addrs {
		ctx, cancel := context.WithCancel(t.Context())
		r, w := io.Pipe()
		ended := make(chan int, 1)
		go func() {
			env := &cli.Env{Ctx: ctx, In: strings.NewReader(""), Out: w, Err: io.Discard}
			ended <- run(env, append([]string{"server", "--json", "--id=" + string(rune('1'+i)),
				"--addr=" + addr, peers}, flags...))
			w.Close()
		}()
		var said ready
		if err := json.NewDecoder(r).Decode(&said); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			cancel()
			if status := <-ended; status != cli.Done {
				t.Errorf("replica %d: status %d", i+1, status)
			}
		})
	}
	return addrs
}
