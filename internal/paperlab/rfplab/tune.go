package rfplab

import (
	"time"

	"github.com/userspace-rpc/erpc/rfp"
	"github.com/userspace-rpc/erpc/rfp/onesided/model"
)

// Tune runs rfp.Tune on the papers' adapters, for the papers' workload with values of these sizes.
func Tune(seed uint64, values []int) (rfp.Tuning, error) {
	m := machine(seed)
	sizes := make([]int, len(values))
	for i, v := range values {
		sizes[i] = rfp.Overhead + rfp.Entry + 1 + v
	}
	return rfp.Tune(&m, sizes)
}

// machine measures the model.
func machine(seed uint64) rfp.Machine {
	p := model.Paper()
	calls := func(cfg rfp.Config, process time.Duration) (float64, error) {
		r := store(seed, 16)
		r.Own, r.Process, r.Calls, r.Config = true, process, 800, cfg
		r.OneAtATime = true
		res, err := Simulate(r)
		return res.Rate, err
	}
	return rfp.Machine{
		Reads: func(bytes int) (float64, error) {
			return Verbs{Params: p, Bytes: bytes, Machines: 7, Window: 5}.Rate()
		},
		Calls: func(mode rfp.Mode, process time.Duration) (float64, error) {
			return calls(rfp.Config{Paper: true, F: 64, Mode: mode}, process)
		},
		IOPS: func(r, f int) (float64, error) {
			return calls(rfp.Config{Paper: true, F: f, R: r}, 0)
		},
		RoundTrip: p.RoundTrip,
	}
}
