package main

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/userspace-rpc/erpc/labs/peers/report"
	"github.com/userspace-rpc/erpc/labs/peers/stubs"
)

// TestStubsRows: every case has a name of its own, peers that exist, and bars about what it
// measures.
func TestStubsRows(t *testing.T) {
	names := map[string]bool{}
	for _, row := range stubsRows() {
		for _, c := range row.cases {
			if key := row.name + "/" + c.Name; names[key] || c.What == "" || c.link.name == "" {
				t.Errorf("%s: twice, or it says too little", key)
			} else {
				names[key] = true
			}
			for _, name := range c.peers {
				if _, err := stubs.ByName(name); err != nil {
					t.Errorf("%s: %v", c.Name, err)
				}
			}
			if len(c.Bars) == 0 {
				t.Errorf("%s has no bar", c.Name)
			}
			for _, b := range c.Bars {
				if !slices.Contains(c.peers, b.Peer) || b.Base != "" && b.Base != c.peers[0] ||
					!slices.Contains(c.Columns, b.Column) {
					t.Errorf("%s: nothing measures %+v", c.Name, b)
				}
			}
		}
	}
}

// TestStubs: each kind of load comes to its end, over all peers of its case.
func TestStubs(t *testing.T) {
	code, out, said := try(t, "stubs", "--rounds=1", "--duration=5ms", "--json",
		"--rows=unary,streams,tls,beside,mixed", "--cases=^(TLS, )?(unary, 32 B|ping-pong, 32 B x 1$|"+
			"down, 32 B|up, 32 B)|on 1 streams|256 callers")
	var g report.Goroutines
	if err := json.Unmarshal([]byte(out), &g); err != nil || code != 0 || len(g.Cases) != 10 {
		t.Fatalf("exit %d, %v, %d cases: %s", code, err, len(g.Cases), said)
	}
	for _, c := range g.Cases {
		if len(c.Results) != 3 {
			t.Errorf("%s: %d results", c.Name, len(c.Results))
		}
	}
}

func TestStubsUsage(t *testing.T) {
	for _, args := range []string{"--rows=none", "--cases=(", "--peers=(", "--cases=none",
		"--rounds=0", "--duration=0s"} {
		if code, _, said := try(t, "stubs", args); code != 2 {
			t.Errorf("%s: exit %d: %s", args, code, said)
		}
	}
}
