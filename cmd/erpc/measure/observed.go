package measure

import (
	"context"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/metrics"
)

const (
	// scrapeEvery is how often --versus metrics takes a snapshot. Prometheus does so each 15 s, so
	// its share of the cost is shown too large, and that of counting calls as it is.
	scrapeEvery = 100 * time.Millisecond
	// recordLast is how many datagrams --versus trace keeps.
	recordLast = 65536
)

// observe watches the endpoint as its switches say, in a goroutine that close ends.
func (ep *endpoint) observe() {
	ep.unwatch = func() {}
	if !ep.flags.Scraped && !ep.flags.Recorded {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	ep.unwatch = func() {
		cancel()
		<-ended
	}
	go func() {
		defer close(ended)
		if ep.flags.Recorded {
			_ = ep.rpc.Record(ctx, recordLast) // it fails if the loop never runs
			return
		}
		tick := time.NewTicker(scrapeEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				ep.scrape(ctx)
			}
		}
	}()
}

// scrape makes the measurements that an exporter of metrics makes.
func (ep *endpoint) scrape(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, scrapeEvery)
	defer cancel()
	metrics.Points(metrics.Options{}, erpc.Snapshots(ctx, erpc.SnapshotOptions{}, ep.rpc)...)
	ep.scrapes.Add(1)
}
