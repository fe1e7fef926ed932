package udp

import (
	"testing"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/conformance"
	"github.com/userspace-rpc/erpc/transport/conformance/decorated"
)

func TestConformance(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			conformance.Run(t, func(tb testing.TB) (a, b transport.Transport) {
				return listen(tb, v.addr, v.cfg), listen(tb, v.addr, v.cfg)
			})
		})
	}
	t.Run("v4", func(t *testing.T) {
		open := func(tb testing.TB) (a, b transport.Transport) {
			const any = "127.0.0.1:0"
			return listen(tb, any, Config{}), listen(tb, any, Config{})
		}
		var opts []conformance.Option
		if haveKernel {
			opts = append(opts, conformance.WithHint(transport.HintUnreachable))
		}
		decorated.Run(t, open, opts...)
	})
}
