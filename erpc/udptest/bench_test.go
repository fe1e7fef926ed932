package udptest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// BenchmarkCall measures 32-byte Client.Call to a server in another process. ns/op is
// the time per call of all goroutines together; p50 and p99 are one call's.
func BenchmarkCall(b *testing.B) {
	for _, h := range []struct {
		name string
		typ  uint8
	}{{"inline", typeInline}, {"worker", typeEcho}} {
		for _, n := range []int{1, 60} {
			b.Run(fmt.Sprintf("%s/goroutines=%d", h.name, n), func(b *testing.B) { benchCall(b, h.typ, n) })
		}
	}
}

func benchCall(b *testing.B, typ uint8, goroutines int) {
	s := server(b, role{Slots: 64, Credits: 64})
	conn, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		b.Fatal(err)
	}
	c, err := erpc.Dial(context.Background(), conn, s.Addr, erpc.Config{Slots: 64, Credits: 64})
	if err != nil {
		b.Fatal(err)
	}
	times := make([][]time.Duration, goroutines)
	for i := range times {
		times[i] = make([]time.Duration, 0, b.N/goroutines+1)
	}
	b.ReportAllocs()
	b.ResetTimer()
	var all sync.WaitGroup
	for i := range times {
		all.Go(func() {
			req, buf := make([]byte, 32), make([]byte, 0, 32)
			for range (b.N + goroutines - 1 - i) / goroutines {
				at := time.Now()
				if _, err := c.AppendCall(context.Background(), buf, typ, req); err != nil {
					b.Error(err)
					return
				}
				times[i] = append(times[i], time.Since(at))
			}
		})
	}
	all.Wait()
	b.StopTimer()
	sorted := slices.Concat(times...)
	slices.Sort(sorted)
	if len(sorted) > 0 {
		b.ReportMetric(float64(sorted[len(sorted)/2])/1e3, "p50-us")
		b.ReportMetric(float64(sorted[len(sorted)*99/100])/1e3, "p99-us")
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	if err := c.Close(); err != nil {
		b.Error(err)
	}
	s.quit()
}
