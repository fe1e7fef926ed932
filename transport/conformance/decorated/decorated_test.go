package decorated

import (
	"testing"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/conformance"
)

// TestDecorators: each decorator passes on what it does not change.
func TestDecorators(t *testing.T) {
	for name, wrap := range All {
		t.Run(name, func(t *testing.T) {
			conformance.Decorator(t, func(inner transport.Transport) transport.Transport {
				return wrap(t, inner)
			})
		})
	}
}
