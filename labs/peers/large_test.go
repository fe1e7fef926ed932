package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/labs/peers/echo"
	"github.com/userspace-rpc/erpc/labs/peers/report"
)

// TestLargeRows: every case has a name of its own, peers that exist, and bars about what it
// measures.
func TestLargeRows(t *testing.T) {
	l := &large{}
	names := map[string]bool{}
	for _, row := range largeRows() {
		for _, c := range row.cases {
			if key := row.name + "/" + c.Name; names[key] || c.What == "" || c.link.name == "" {
				t.Errorf("%s: twice, or it says too little", key)
			} else {
				names[key] = true
			}
			for _, name := range c.peers {
				if p := largePeer(name); p.Name == "" || p.ListenAt == nil {
					t.Errorf("%s: %q is no peer that listens where it is told", c.Name, name)
				}
			}
			list, out := l.contestants(&c)
			if len(list)+len(out) != len(c.peers) {
				t.Errorf("%s: %d contestants, and %q", c.Name, len(list), out)
			}
			for _, b := range append(c.Bars, report.Bar{Peer: c.Base, Column: "rate"}) {
				if !slices.Contains(c.peers, b.Peer) || b.Base != "" && !slices.Contains(c.peers, b.Base) ||
					!slices.Contains(c.Columns, b.Column) {
					t.Errorf("%s: nothing measures %+v", c.Name, b)
				}
			}
		}
	}
}

// TestLargeBars: the bars, in a few words each.
func TestLargeBars(t *testing.T) {
	const want = `16 KiB x 8, loopback, clients: rate at least 1 of tcp-mux
16 KiB x 8, veth, clients: rate at least 1 of tcp-mux
16 KiB x 8, software GSO, clients: rate at least 0.8 of tcp-mux
16 KiB x 8, all off, loops: erpc-loop rate at least 0.85 of udp-bare
64 KiB x 8, loopback, clients: rate at least 1 of tcp-mux
64 KiB x 8, loopback, loops: erpc-loop rate at least 0.8 of tcp-spin
64 KiB x 8, veth, clients: rate at least 1 of tcp-mux
64 KiB x 8, veth, loops: erpc-loop rate at least 1 of tcp-spin
64 KiB x 8, software GSO, clients: rate at least 0.8 of tcp-mux
64 KiB x 8, software GSO, loops: erpc-loop rate at least 0.8 of tcp-spin
64 KiB x 8, all off, loops: erpc-loop rate at least 0.85 of udp-bare
1 MiB x 2, loopback, clients: rate at least 1 of tcp-mux
1 MiB x 2, loopback, loops: erpc-loop rate at least 0.8 of tcp-spin
1 MiB x 2, veth, clients: rate at least 1 of tcp-mux
1 MiB x 2, veth, loops: erpc-loop rate at least 1 of tcp-spin
1 MiB x 2, software GSO, clients: rate at least 0.8 of tcp-mux
1 MiB x 2, software GSO, loops: erpc-loop rate at least 0.8 of tcp-spin
1 MiB x 2, all off, loops: erpc-loop rate at least 0.85 of udp-bare
`
	var got strings.Builder
	for _, c := range largeCases() {
		var bars []string
		for _, b := range c.Bars {
			if b.Column == "memory" {
				if c.size != 64<<20 || b.Bound != 100e6 {
					t.Errorf("%s: %+v", c.Name, b)
				}
				continue
			}
			bars = append(bars, barText(b))
		}
		if bars != nil {
			fmt.Fprintf(&got, "%s: %s\n", c.Name, strings.Join(bars, ", "))
		}
	}
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
	bars := lossCases()[5].Bars
	var loss []string
	for _, b := range bars {
		loss = append(loss, barText(b))
	}
	if text := strings.Join(loss, ", "); text != "erpc-loop rate at least 2 of tcp-spin, "+
		"erpc-loop p99.9 below 3e+03 alone, erpc-loop max below 2e+04 alone" || bars[2].Share != 0.8 {
		t.Errorf("1 %% lost: %s", text)
	}
}

// TestLarge: clients and loops over loopback, in processes of their own.
func TestLarge(t *testing.T) {
	code, out, said := try(t, "large", "--rows=large", "--cases=^16 KiB x 8, loopback",
		"--rounds=1", "--duration=2ms", "--json")
	var g report.Goroutines
	if err := json.Unmarshal([]byte(out), &g); err != nil || code != 0 {
		t.Fatalf("exit %d, %v: %s", code, err, said)
	}
	if len(g.Cases) != 2 {
		t.Fatalf("%d cases", len(g.Cases))
	}
	for i, c := range g.Cases {
		want := [][]string{largeClients, largeLoops}[i]
		var got []string
		for _, r := range c.Results {
			if r.Figures["rate"].Median <= 0 || r.Figures["p99.9"].Median <= 0 {
				t.Errorf("%s: %+v", c.Name, r)
			}
			got = append(got, r.Peer)
			own := r.Peer == ours || r.Peer == oursReuse || r.Peer == ourLoop
			for _, f := range []string{"packets", "sends", "server packets", "server sends"} {
				if (r.Figures[f].Median > 0) != own {
					t.Errorf("%s: %s of %s: %+v", c.Name, f, r.Peer, r.Figures[f])
				}
			}
		}
		if runtime.GOOS == "linux" && !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", c.Name, got, want)
		}
	}
	for _, r := range g.Turns {
		if runtime.GOOS == "linux" && r.Memory < 1e6 {
			t.Errorf("%s has a server of %v bytes", r.Peer, r.Memory)
		}
	}
}

// TestLargeLeftOut: udp-bare sends nothing again, so it carries no message that is larger than what
// sockets hold.
func TestLargeLeftOut(t *testing.T) {
	_, loops := echoes(64<<20, 1, loopback)
	list, out := (&large{}).contestants(&loops)
	if len(out) != 1 || !strings.HasPrefix(out[0], "udp-bare: ") || len(list) > 2 {
		t.Errorf("%d contestants, %q", len(list), out)
	}
}

func TestLargeUsage(t *testing.T) {
	for _, args := range []string{"--rows=none", "--cases=(", "--cases=none", "--rounds=0",
		"--duration=0s"} {
		if code, _, said := try(t, "large", args); code != 2 {
			t.Errorf("%s: exit %d: %s", args, code, said)
		}
	}
}

func TestLargeInterrupt(t *testing.T) {
	checkInterrupt(t, "tcp-mux go", "large", "--cases=16 KiB x 8, loopback, clients", "--rounds=1000",
		"--duration=1ms")
}

// needLinks skips a test where this process cannot make links.
func needLinks(t *testing.T) {
	t.Helper()
	why := ""
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("network namespaces need Linux and root")
	}
	for _, tool := range []string{"ip", "ethtool"} {
		if _, err := exec.LookPath(tool); err != nil {
			why = err.Error()
		}
	}
	if why != "" && os.Getenv("CI") == "true" {
		t.Fatal(why + ", and CI=true")
	}
	if why != "" {
		t.Skip(why)
	}
}

// TestLargeLinks: crowds, small calls beside large ones, and lost packets, over links.
func TestLargeLinks(t *testing.T) {
	needLinks(t)
	code, out, said := try(t, "large", "--rows=crowd,mixed,loss", "--rounds=1", "--duration=5ms",
		"--cases=^(8 clients, 64 KiB x 1|32 B x 8, veth, loops|32 B x 60, 1 % lost, clients)", "--json")
	var g report.Goroutines
	if err := json.Unmarshal([]byte(out), &g); err != nil || code != 0 || len(g.Cases) != 3 {
		t.Fatalf("exit %d, %v, %d cases: %s", code, err, len(g.Cases), said)
	}
	for _, c := range g.Cases {
		for _, r := range c.Results {
			for _, name := range c.Columns {
				if col := r.Figures[name]; col.Median <= 0 && !strings.Contains(name, "packets") &&
					!strings.Contains(name, "sends") {
					t.Errorf("%s: %s has no %s", c.Name, r.Peer, name)
				}
			}
		}
	}
}

// TestTogether: the calls of several clients add up, and the least counts.
func TestTogether(t *testing.T) {
	turn := func(rps, cpu, packets float64, rpcs, all int64) report.Turn {
		return report.Turn{Run: report.Run{Rps: rps, CPU: cpu, Rpcs: rpcs, P99: rps}, All: all,
			Packets: packets}
	}
	got := together([]report.Turn{turn(100, 10, 4, 10, 20), turn(300, 20, 8, 30, 60)})
	if got.Rps != 400 || got.CPU != 17.5 || got.Packets != 7 || got.Least != 0.5 || got.P99 != 300 {
		t.Errorf("%+v", got)
	}
}

// TestLargeFails: a server that does not start, and a client that finds none, are told.
func TestLargeFails(t *testing.T) {
	l := &large{duration: time.Millisecond}
	c := &goCase{size: 32, callers: 1}
	if _, err := l.echo(t.Context(), echo.Peer{Name: "nobody"}, c); err == nil ||
		!strings.Contains(err.Error(), "the server did not start") {
		t.Error(err)
	}
	p, _ := echo.ByName("tcp-mux")
	if _, err := l.call(t.Context(), p, c, &child{line: "127.0.0.1:1"}); err == nil ||
		!strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
}
