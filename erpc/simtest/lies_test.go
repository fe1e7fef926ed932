package simtest

import (
	"bytes"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/sim"
	"github.com/userspace-rpc/erpc/wire"
)

// liar is a server's transport that says of all response packets to requests of one packet that
// their requests were held for a time.
type liar struct {
	transport.Transport
	held time.Duration
}

func (l *liar) TxBurst(items []transport.TxItem) (int, error) {
	changed := append([]transport.TxItem(nil), items...)
	for i := range changed {
		x := &changed[i]
		var h wire.Header
		if len(x.Head) < wire.HeaderSize || h.ParseCut(x.Head, len(x.Head)+len(x.Data)) != nil ||
			h.Type != wire.TypeResp {
			continue
		}
		x.Head = bytes.Clone(x.Head)
		token := wire.Token(x.Head) ^ wire.Checksum(x.Head, x.Data)
		if h.PktNum == 0 {
			wire.SetHold(x.Head, uint16(min(l.held/wire.HoldUnit, wire.HoldUnknown)))
		} else {
			wire.SetHold(x.Head, wire.TryHold(h.Hold, l.held))
		}
		wire.SetToken(x.Head, token^wire.Checksum(x.Head, x.Data))
	}
	return l.Transport.TxBurst(changed)
}

// TestLyingHolds: a client has answers of 40 kB from two servers through its slow link. If one of
// them says that it has held requests for a time, none or longer than it can say, whatever it did,
// the other still gets its part of the link. At -1 none lies.
func TestLyingHolds(t *testing.T) {
	notRaced(t)
	for _, alg := range controls() {
		for _, held := range []time.Duration{-1, 0, time.Second / 4000, time.Millisecond, time.Second} {
			net := wideLink(time.Millisecond)
			net.PortBuffer = 250_000
			cfg := erpc.Config{Congestion: erpc.Congestion{Algorithm: alg}}
			c := newCluster(t, net)
			c.wrapFor = func(n *node, tr transport.Transport) transport.Transport {
				if n.id == 1 && held >= 0 {
					return &liar{tr, held}
				}
				return tr
			}
			client := c.add(cfg, sim.EndpointConfig{})
			if err := c.net.SetLinkBits(client.id, 100e6); err != nil {
				t.Fatal(err)
			}
			var got [2]*stream
			for range got {
				c.add(cfg, sim.EndpointConfig{})
			}
			for i := range got {
				got[i] = c.echoes(client, 1+i, 1000, 40_000, 4)
			}
			c.run(time.Second)
			was := [2]int{got[0].done, got[1].done}
			c.run(2 * time.Second)
			var bits [2]float64
			for i := range got {
				bits[i] = float64(got[i].done-was[i]) * 40 * 8 / 2 / 100e6
			}
			t.Logf("control %v, held %v: liar %.2f, honest %.2f", alg, held, bits[0], bits[1])
			if bits[1] < 0.4 || bits[0]+bits[1] < 0.85 {
				t.Error("the liar harms others")
			}
		}
	}
}
