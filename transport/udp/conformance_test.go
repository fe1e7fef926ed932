package udp

import (
	"testing"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/conformance"
)

func TestConformance(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			conformance.Run(t, func(tb testing.TB) (a, b transport.Transport) {
				return listen(tb, v.addr, v.cfg), listen(tb, v.addr, v.cfg)
			})
		})
	}
}
