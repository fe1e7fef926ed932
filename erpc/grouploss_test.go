package erpc_test

import (
	"fmt"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
)

// TestForeignPacketsOfClosedLoop: packets of other loops wait in the socket of a loop that ends, or
// where it has handed them over. The former are lost with the socket and cost their calls one
// retransmission each; the latter cost nothing. No call of the other loops fails or runs twice.
func TestForeignPacketsOfClosedLoop(t *testing.T) {
	for _, handed := range []bool{false, true} {
		t.Run(fmt.Sprintf("handed=%v", handed), func(t *testing.T) {
			g := newLoopRig(t, 3, 4, erpc.Config{})
			g.dial(4)
			for range 20 { // all is acknowledged
				g.run()
			}
			of := map[*erpc.Session]uint8{}
			foreign := uint64(0)
			g.steer(func(int) int { return 0 }) // the kernel chooses the first loop for all
			before := g.retransmits()
			for _, s := range g.all {
				if of[s] = s.RemoteLoop(); of[s] != 1 {
					foreign++
				}
				g.send(g.clients[g.clientOf(s)], s, 100)
			}
			for _, c := range g.clients {
				_, err := c.RunOnce()
				is(t, "a client's pass", err, nil)
			}
			if handed {
				_, err := g.loops[0].RunOnce()
				is(t, "a pass of the loop", err, nil)
			}
			if st := g.sum(); foreign < 5 || st.HandedOver > 0 != handed || st.HandedIn > 0 {
				t.Fatalf("%d calls of other loops, %s", foreign, brief(st))
			}
			is(t, "close", g.loops[0].Close(), nil)
			g.loops[0], g.order, g.tick = nil, []int{2, 1}, 50_000
			g.steer(nil)
			g.until(func() bool { return len(g.left) == 0 })
			g.once()
			for number, s := range g.failed {
				if of[s] != 1 {
					t.Errorf("request %d of loop %d failed: %v", number, of[s], s.Err())
				}
			}
			want := foreign
			if handed {
				want = 0
			}
			if n := g.retransmits() - before; n != want {
				t.Errorf("%d packets were sent again, want %d", n, want)
			}
			if st := g.sum(); handed != (st.HandedIn > 0) {
				t.Error(brief(st))
			}
			g.close()
		})
	}
}

// retransmits returns how many packets the clients have sent again.
func (g *loopRig) retransmits() (n uint64) {
	for _, c := range g.clients {
		n += c.Counters().Protocol.Retransmits
	}
	return n
}
