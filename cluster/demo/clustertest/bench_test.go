package clustertest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/userspace-rpc/erpc/cluster"
	"github.com/userspace-rpc/erpc/cluster/etcd"
)

// BenchmarkRegisterAtOnce has many servers of one zone register at the same moment: the time until
// all have an entry and a number, for each.
func BenchmarkRegisterAtOnce(b *testing.B) {
	for _, servers := range []int{10, 100, 300} {
		b.Run(fmt.Sprint(servers), func(b *testing.B) {
			c := startNode(b).client()
			cfg := config()
			cfg.TTL = 0
			for b.Loop() {
				list := make([]*etcd.Registration, servers)
				var all sync.WaitGroup
				for i := range list {
					all.Go(func() {
						r, err := etcd.Register(b.Context(), c, cfg,
							cluster.Entry{Addr: fmt.Sprintf("10.0.%d.%d:1", i/256, i%256)})
						if err != nil {
							b.Error(err)
							return
						}
						list[i] = r
					})
				}
				all.Wait()
				b.StopTimer()
				most := 0
				for _, r := range list {
					if r != nil {
						most = max(most, r.Entry().Number)
						all.Go(func() { _ = r.Close(b.Context()) })
					}
				}
				all.Wait()
				b.ReportMetric(float64(most), "highest-number")
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*servers), "us/server")
		})
	}
}
