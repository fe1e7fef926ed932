package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/client"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/node"
)

// TestHello: a member that does not go with the others is refused by name on both sides, which both
// show in their status, and nothing that they replicate comes to it. Ticks alone may differ.
func TestHello(t *testing.T) {
	const lease = 100 * time.Millisecond
	for name, c := range map[string]struct {
		all, odd func(cfg *node.Config)
		want     string // "": they go together
	}{
		"later formats": {nil, func(cfg *node.Config) {
			cfg.Formats = node.Formats{Min: kv.Format + 1, Max: kv.Format + 1}
		}, node.ErrFormat.Error()},
		"formats of both": {nil, func(cfg *node.Config) { cfg.Formats = node.Formats{Max: 3} }, ""},
		"lease":           {nil, func(cfg *node.Config) { cfg.Lease = lease }, node.ErrLease.Error()},
		"lease and tick": {func(cfg *node.Config) { cfg.Lease = lease },
			func(cfg *node.Config) { cfg.Tick = 25 * time.Millisecond }, node.ErrLease.Error()},
		"tick": {nil, func(cfg *node.Config) { cfg.Tick = 25 * time.Millisecond }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := startChanged(t, 3, func(cfg *node.Config) {
				if c.all != nil {
					c.all(cfg)
				}
				if cfg.ID == 3 {
					c.odd(cfg)
				}
			})
			cl := g.dial()
			if err := cl.Put(testContext(t), "k", []byte("v")); err != nil {
				t.Fatal(err)
			}
			if c.want == "" {
				awaitStatus(t, cl, g.addrs[2], func(s statusOf) bool {
					if strings.Contains(fmt.Sprintf("%+v", s.Peers), "Err:node") {
						t.Fatalf("%+v", s)
					}
					return s.Keys == 1
				})
				return
			}
			for _, at := range [][2]int{{0, 3}, {1, 3}, {2, 1}, {2, 2}} {
				awaitStatus(t, cl, g.addrs[at[0]], func(s statusOf) bool {
					if at[0] == 2 && s.Keys != 0 {
						t.Fatalf("it has %d keys of the others", s.Keys)
					}
					i := slices.IndexFunc(s.Peers, func(p node.Companion) bool { return p.ID == uint64(at[1]) })
					return s.Peers[i].Said && strings.Contains(s.Peers[i].Err, c.want)
				})
			}
			g.gone.Store(3)
			g.nodes[2].Rpc().Wake()
			awaitStatus(t, cl, g.addrs[0], func(s statusOf) bool { // of one that is gone nothing is known
				return !s.Peers[1].Met && s.Peers[1].Err == ""
			})
		})
	}
}

type statusOf struct {
	Keys  int
	Peers []node.Companion
}

func helloStatus(t *testing.T, c *client.Blocking, addr string) (s statusOf) {
	t.Helper()
	b, err := c.Call(testContext(t), addr, node.TypeStatus, nil)
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// awaitStatus waits until a replica's status is as it should be.
func awaitStatus(t *testing.T, c *client.Blocking, addr string, is func(statusOf) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		s := helloStatus(t, c, addr)
		if is(s) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%+v", s)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
