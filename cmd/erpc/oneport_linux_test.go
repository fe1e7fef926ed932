package main

import (
	"testing"

	"github.com/userspace-rpc/erpc/cmd/erpc/measure"
	"github.com/userspace-rpc/erpc/kit/cli"
)

// TestServerOnePort: several loops on one address serve clients with several threads.
func TestServerOnePort(t *testing.T) {
	server := start(t, "server --addr 127.0.0.1:0 --one-port --threads 3 --json")
	var ready measure.ReadyLine
	decodeOne(t, waitFor(t, server.out, "ready"), &ready)
	if len(ready.Addrs) != 1 || ready.Addrs[0] != ready.Addr {
		t.Errorf("%+v", ready)
	}
	status, out, errOut := runCommand(t,
		"bench rate --threads 2 --sessions 3 --duration 20ms --json --addr "+ready.Addr+gentle)
	var r measure.Result
	decodeOne(t, out, &r)
	if status != cli.Done || r.Rpcs == 0 || r.Errors != 0 {
		t.Errorf("status %d, err %q, %+v", status, errOut, r)
	}
	if _, err := server.interrupt(t); err != nil {
		t.Errorf("server ended with %v", err)
	}
}

// TestServerOnePortRefused: flags that make no sense together.
func TestServerOnePortRefused(t *testing.T) {
	for flags, want := range map[string]string{
		"--transport shm":     "--one-port is for --transport udp",
		"--raw":               "does not go with --raw",
		"--symmetric":         "does not go with --raw and --symmetric",
		"--threads 200":       "must be 1 to 127",
		"--mtu 1 --threads 2": "MTU",
	} {
		checkUsage(t, "server --one-port "+flags, want)
	}
}
