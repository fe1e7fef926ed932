package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/cli/secure/securetest"
)

// TestSecure: certificates and shared keys work, and everybody else gets one line.
func TestSecure(t *testing.T) {
	c := &securetest.Command{
		Run: func(args ...string) (int, string, string) {
			var o, e bytes.Buffer
			status := run(t.Context(), args, strings.NewReader(""), &o, &e)
			return status, o.String(), e.String()
		},
		Serve:    func(flags ...string) string { return serveSecure(t, flags) },
		Works:    []string{"ping --count=2"},
		Clients:  []string{"ping --count=1"},
		Mistakes: []string{"ping 127.0.0.1:9", "bench rate", "server --addr=127.0.0.1:0"},
	}
	c.All(t)
	c.Reload(t, nil, []string{"server", "--json", "--addr=127.0.0.1:0"},
		func(addr string) string { return addr })
}

// serveSecure runs a server in this process until the test ends, and returns its address.
func serveSecure(t *testing.T, flags []string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		args := append([]string{"server", "--json", "--addr=127.0.0.1:0"}, flags...)
		ended <- run(ctx, args, strings.NewReader(""), w, io.Discard)
		w.Close()
	}()
	var said struct{ Addrs []string }
	if err := json.NewDecoder(r).Decode(&said); err != nil || len(said.Addrs) != 1 {
		t.Fatal(said, err)
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	t.Cleanup(func() {
		cancel()
		if status := <-ended; status != cli.Done {
			t.Errorf("server: status %d", status)
		}
	})
	return said.Addrs[0]
}
