package prometheus

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/userspace-rpc/erpc/erpc"
)

// TestScrapesThatHang: scrapes whose reader stops in the middle hold up neither calls nor another
// scrape. They end once somebody reads on.
func TestScrapesThatHang(t *testing.T) {
	r := newRig(t)
	c := New(Config{}, r.client, r.server)
	var hung []chan prometheus.Metric
	for range 8 {
		ch := make(chan prometheus.Metric)
		go func() {
			defer close(ch)
			c.Collect(ch)
		}()
		<-ch // the scrape is under way
		hung = append(hung, ch)
		r.call(t, 1, 10, erpc.CodeOK)
		r.call(t, 2, 10, erpc.CodeOK)
	}
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	if all, err := reg.Gather(); err != nil || len(all) == 0 {
		t.Errorf("%d measurements, %v", len(all), err)
	}
	for _, ch := range hung {
		n := 0
		for range ch {
			n++
		}
		if n == 0 {
			t.Error("a scrape that hung lost what was left of it")
		}
	}
}
