package afpacket

import (
	"net/netip"
	"testing"

	"github.com/userspace-rpc/erpc/transport/rawudp/rawtest"
	"github.com/userspace-rpc/erpc/transport/rawudp/vethtest"
)

// listenOn opens an endpoint on one side, closed when the test ends.
func listenOn(tb testing.TB, s *vethtest.Side, ip netip.Addr, cfg Config) *Conn {
	tb.Helper()
	return rawtest.ListenOn(tb, s, ip, Listen, cfg)
}
