package simtest

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/client"
)

// TestSecureRecovery: all replicas die and start again at once, so that they have forgotten the
// keys of a client, and nothing tells it that they have; or it is cut off until they have given it
// up. It is back as soon as one with plain packets would be.
func TestSecureRecovery(t *testing.T) {
	for _, cut := range []bool{false, true} {
		sh := small
		sh.tick = 20 * time.Millisecond
		sh.psk = [][]byte{bytes.Repeat([]byte{7}, 32)}
		c, u := calm(t, sh)
		if r := c.put(u, "before"); r.Err != nil {
			t.Fatal(r.Err)
		}
		u.do(putCommand("k", "meanwhile"), 10*time.Second, func(r client.Result) {
			if r.Err != nil {
				t.Error(r.Err)
			}
		})
		var servers []int
		for _, s := range c.servers {
			if servers = append(servers, s.machine); !cut {
				s.crash()
				s.start()
			}
		}
		if cut {
			if err := errors.Join(c.net.Cut(servers, []int{u.machine}),
				c.net.Cut([]int{u.machine}, servers)); err != nil {
				t.Fatal(err)
			}
			c.run(1500 * time.Millisecond)
			c.net.Heal()
		}
		at := c.net.Now()
		c.await(10*time.Second, "nobody leads", func() bool { return c.leader() != nil })
		first := c.net.Now()
		c.await(10*time.Second, "it is not back", func() bool { return !u.busy })
		if took := c.net.Now().Sub(first); took > 300*time.Millisecond {
			t.Errorf("cut %v: somebody leads after %v, and it is back %v later", cut, first.Sub(at), took)
		}
	}
}
