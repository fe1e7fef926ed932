package simtest

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/sim"
	"github.com/userspace-rpc/erpc/wire"
)

// told is an endpoint that says something of its paths which the network does not know.
type told struct {
	*sim.Endpoint
	path transport.Path
}

func (x told) Path(transport.Addr) transport.Path { return x.path }

// TestToldPath: a session offers what the transport says of the path, without looking for it, and
// checks packets itself where nobody else does.
func TestToldPath(t *testing.T) {
	const largest = 8972
	for _, v := range []struct{ mtu, agreed int }{
		{largest, largest},
		{3001, 3001}, // which no search would find
		{session.MinMTU, session.MinMTU},
		{session.MinMTU - 1, largest}, // no session works there: perhaps the transport is wrong
	} {
		for _, checksummed := range []bool{false, true} {
			c := newCluster(t, sim.Config{MTU: largest, PropDelay: 5000, Trace: tracer(t)})
			c.wrap = func(tr transport.Transport) transport.Transport {
				return told{tr.(*sim.Endpoint), transport.Path{MTU: v.mtu, Checksummed: checksummed}}
			}
			c.add(erpc.Config{}, sim.EndpointConfig{})
			c.add(erpc.Config{}, sim.EndpointConfig{})
			k := echo(c)
			c.must(3*time.Second, k)
			want(t, nil, k)
			p := c.nodes[0].sessions[1].Params()
			if p.PerPacket != v.agreed-wire.HeaderSize || p.Checksum == checksummed {
				t.Errorf("Path.MTU %d, Checksummed %v: agreed on %+v", v.mtu, checksummed, p)
			}
			c.closeAll()
		}
	}
}
