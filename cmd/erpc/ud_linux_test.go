package main

import (
	"os"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/cmd/erpc/measure"
	"github.com/userspace-rpc/erpc/internal/verbs"
)

// TestDoctorVerbs: what is lacking comes with what mends it.
func TestDoctorVerbs(t *testing.T) {
	for _, f := range findVerbs() {
		if !strings.HasPrefix(f.Name, "ud: ") || f.Found == "" || !f.OK && f.Mend == "" {
			t.Errorf("%+v", f)
		}
	}
	if os.Getenv("RDMA_LAB") != "" {
		if d := findDevices(); !d.OK ||
			!strings.Contains(d.Found, "rxe1/1 Ethernet active MTU 4096 GID[1] 10.9.0.2") {
			t.Errorf("%+v", d)
		}
		if err := verbs.Available(); err != nil {
			t.Error(err)
		}
	}
}

// TestUdAcrossDevices runs server, ping and benches as processes over the lab's two devices.
func TestUdAcrossDevices(t *testing.T) {
	if os.Getenv("RDMA_LAB") == "" {
		t.Skip("needs two RDMA devices: see scripts/rdma-lab")
	}
	server := start(t, "server --json --transport ud --iface rxe1 --raw")
	var ready measure.ReadyLine
	decodeOne(t, waitFor(t, server.out, "ready"), &ready)
	if want := "10.9.0.2:31850"; ready.Addr != want {
		t.Fatalf("serves on %s, want %s", ready.Addr, want)
	}
	ping := start(t, "ping "+ready.Addr+
		" --transport ud --iface rxe0/1 --json --count 3 --interval 1ms --size 100000")
	var r measure.PingResult
	decodeOne(t, waitFor(t, ping.out, "received"), &r)
	if err := ping.cmd.Wait(); err != nil || r.Sent != 3 || r.Received != 3 || r.Transport != "ud" {
		t.Errorf("ping ended with %v, %+v", err, r)
	}
	for _, line := range []string{
		"bench latency --addr " + ready.Addr, "bench rate --batch 8 --addr " + ready.Addr,
		"bench bandwidth --size 1000000 --addr " + ready.Addr,
		"bench latency", // with a server of its own, on the same device
	} {
		line += " --transport ud --iface rxe0 --raw --rounds 1 --duration 1s --json"
		bench := start(t, line)
		var r measure.Result
		decodeOne(t, waitFor(t, bench.out, "{"), &r)
		if err := bench.cmd.Wait(); err != nil || r.Rpcs == 0 || r.Errors != 0 || r.Ratio <= 0 {
			t.Errorf("%s: %v, %+v", line, err, r)
		}
		t.Logf("%s: ratio to raw %.2f", line, r.Ratio)
	}
	for line, want := range map[string]string{
		"ping 10.9.0.2:1 --transport ud --count 1":      "no endpoint answers",
		"server --transport ud --iface mlx9":            "no such RDMA device",
		"server --transport ud --iface rxe0 --gid 77":   "no such GID",
		"server --transport ud --iface rxe0/2":          "no such port",
		"server --transport ud --iface rxe0 --mtu 5000": "larger than the link's MTU",
		"ping " + ready.Addr +
			" --transport ud --gid 0 --iface rxe0 --count 1": "another link layer or kind of GID",
	} {
		p := start(t, line)
		waitFor(t, p.errLines, want)
		if err := p.cmd.Wait(); err == nil {
			t.Errorf("%s: succeeded", line)
		}
	}
}
