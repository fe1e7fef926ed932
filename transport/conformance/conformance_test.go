package conformance

import (
	"testing"

	"github.com/userspace-rpc/erpc/transport"
)

func TestReference(t *testing.T) { Run(t, openMem(mutant{}), WithHint(transport.HintUnreachable)) }

func TestReferenceThird(t *testing.T) {
	var w *memNet
	open := func(tb testing.TB) (a, b transport.Transport) {
		w = newMemNet()
		return w.open(mutant{}), w.open(mutant{})
	}
	third := func(tb testing.TB) transport.Transport { return w.open(mutant{}) }
	Run(t, open, WithThird(third), WithoutSelf())
}
