package main

import (
	"errors"
	"fmt"
	"time"
)

// redisKeys is how many keys redis gets at most: it takes some 300 bytes for each.
const redisKeys = 2_000_000

// server measures the index behind RPCs: servers on one core, their client on another.
func (o *options) server() (err error) {
	b := newBench(o.keys)
	var rd *redis
	switch {
	case !o.wants("redis"):
	case o.keys > redisKeys:
		fmt.Printf("no rows of redis: more than %d keys\n", redisKeys)
	default:
		if rd, err = newRedis(b); err != nil {
			fmt.Printf("no rows of redis: %v\n", err)
			err = nil
		} else {
			defer rd.Stop()
		}
	}
	r, err := newRemote(b, o.network, o.pages, bare, batched, single)
	defer func() { err = errors.Join(err, r.close()) }()
	if err != nil {
		return err
	}
	// Differences are formed within a round, as ratios are.
	var times [3]float64
	kept := func(i int, run func(time.Duration) float64) func(time.Duration) float64 {
		return func(each time.Duration) float64 {
			times[i] = run(each)
			return times[i]
		}
	}
	share := map[bool]float64{false: 0.7, true: 0.6}
	if o.network == "shm" {
		share = map[bool]float64{false: 0.45, true: 0.35}
	}
	large := o.keys >= 16_000_000
	gain := 0.0
	if large {
		gain = 1.3
	}
	rows := []row{
		{"lookup alone, batches of 32", "", 0, kept(0, b.getBatch(32))},
		{"bare RPC", "", 0, kept(1, r.gets(bare))},
		{"GET, single", "bare RPC", 0, r.gets(single)},
		{"GET", "bare RPC", share[large], kept(2, r.gets(batched))},
		{"GET again", "GET, single", gain, r.gets(batched)},
		{"what a GET adds to an RPC", "lookup alone, batches of 32", 1 / 1.2,
			func(time.Duration) float64 { return max(times[2]-times[1], 1) }},
		{"SCAN 128", "", 0, r.scans(batched)},
	}
	if rd != nil {
		rows = append(rows, row{"redis ZSCORE", "", 0, rd.gets},
			row{"GET beside redis", "redis ZSCORE", 5, r.gets(batched)},
			row{"redis ZRANGEBYLEX 128", "", 0, rd.scans},
			row{"SCAN 128 beside redis", "redis ZRANGEBYLEX 128", 5, r.scans(batched)})
	}
	err = o.measure(b, rows)
	if rd != nil {
		err = errors.Join(err, rd.Err)
	}
	return err
}
