package simtest

import (
	"flag"
	"testing"
	"time"
)

var (
	seedFlag = flag.Int64("seed", -1, "run TestSeeds with this seed only")
	fromFlag = flag.Uint64("from", 0, "with -for, the first seed")
	forFlag  = flag.Duration("for", 0, "run TestSeeds with seeds from -from on for so long")
)

// TestSeeds runs one random cluster per seed; see the package comment.
func TestSeeds(t *testing.T) {
	if *seedFlag >= 0 {
		t.Logf("%+v", runSeed(t, uint64(*seedFlag)))
		return
	}
	if *forFlag > 0 {
		manySeeds(t)
		return
	}
	count := uint64(600)
	if testing.Short() {
		count = 60
	}
	var sum outcome
	for seed := range count {
		got := runSeed(t, seed)
		if seed%20 == 0 {
			if again := runSeed(t, seed); again != got {
				t.Errorf("seed %d gave %+v, then %+v", seed, got, again)
			}
		}
		if t.Failed() {
			t.Fatalf("repeat with: go test ./rfp/simtest -run TestSeeds -seed=%d -v", seed)
		}
		sum.add(got)
	}
	t.Logf("%+v", sum)
	for what, n := range map[string]uint64{
		"calls": sum.ended, "late ones": sum.late, "ends by the peer": sum.gone, "replies": sum.replies,
		"READs without a result": sum.missed, "rests": sum.rests, "modes changed": sum.asked,
		"switches": sum.switches, "batches": sum.batches, "queue pairs in error": sum.queues,
	} {
		if n == 0 {
			t.Errorf("no %s in %d seeds", what, count)
		}
	}
}

// manySeeds runs one seed after the other until the time is over or one fails: make seeds.
func manySeeds(t *testing.T) {
	seed := *fromFlag
	defer func() {
		if t.Failed() {
			t.Logf("repeat with: go test ./rfp/simtest -run TestSeeds -seed=%d -v", seed)
		}
	}()
	for end := time.Now().Add(*forFlag); time.Now().Before(end); seed++ {
		runSeed(t, seed)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d seeds from %d on", seed-*fromFlag, *fromFlag)
}

// outcome counts what happened in a run, so that a test can tell that it happened at all.
type outcome struct {
	ended, late, gone, remote, replies, missed uint64
	rests, asked, switches, batches, queues    uint64
	at                                         int64 // virtual
}

func (o *outcome) add(p outcome) {
	o.ended += p.ended
	o.late += p.late
	o.gone += p.gone
	o.remote += p.remote
	o.replies += p.replies
	o.missed += p.missed
	o.rests += p.rests
	o.asked += p.asked
	o.switches += p.switches
	o.batches += p.batches
	o.queues += p.queues
}
