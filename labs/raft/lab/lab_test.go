package lab

import (
	"context"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// TestRun: all placements measure something, and a PUT takes longer than a plain RPC.
func TestRun(t *testing.T) {
	for _, p := range []Placement{Together, Spread} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		r, err := Run(ctx, Config{Transport: "udp", Replicas: 3, Placement: p, Keys: 1000, Clients: 8,
			Rounds: 1, Each: 50 * time.Millisecond,
			Listen: func() (transport.Transport, error) { return udp.Listen("127.0.0.1:0", udp.Config{}) }})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", *r)
		if r.Puts == 0 || r.Put.P50 == 0 || r.Get.P50 == 0 || r.Commit.P50 == 0 || r.Plain.P50 == 0 ||
			r.Shared.P50 == 0 || r.Chain.P50 == 0 || r.Bare.P50 == 0 || r.Ratio.Least == 0 ||
			r.OfChain.Least == 0 || r.OfBare.Least == 0 {
			t.Errorf("%+v", *r)
		}
		for _, l := range []*Load{r.LoadPut, r.LoadGet} {
			if l == nil || l.Full == 0 || l.Half.P50 == 0 || l.Half.P99 < l.Half.P50 ||
				l.Plain.P50 == 0 {
				t.Errorf("load %+v", l)
			}
		}
	}
}

// TestRatio: a round's figures stand beside each other, whatever the machine does meanwhile.
func TestRatio(t *testing.T) {
	l := func(p50 ...float64) (all []Latency) {
		for _, p := range p50 {
			all = append(all, Latency{P50: p, P99: 10 * p})
		}
		return all
	}
	got := ratio(l(6, 20, 21, 50, 36), l(3, 10, 7, 20, 9))
	if want := (Ratio{Median: 2.5, Least: 2, Most: 4}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if s := got.String(); s != "2.50 (2.00 to 4.00)" {
		t.Error(s)
	}
}
