package main

import (
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/labs/benchrows"
	"github.com/userspace-rpc/erpc/rfp"
	"github.com/userspace-rpc/erpc/rfp/onesided"
	"github.com/userspace-rpc/erpc/rfp/onesided/shm"
)

// BenchmarkModes has both sides of shared memory in one thread, in turns, and counts its processor
// time: what calls cost without what waiting for another core does, and on a busy machine too. Of
// 7 rounds it reports the medians.
func BenchmarkModes(b *testing.B) {
	clock, err := benchrows.NewClock("cpu")
	if err != nil {
		b.Fatal(err)
	}
	defer runtime.UnlockOSThread()
	rows := []struct {
		name string
		cfg  rfp.Config
		call func()
	}{
		{"reply", rfp.Config{Mode: rfp.Reply}, nil},
		{"fetch", rfp.Config{Mode: rfp.Fetch}, nil},
		{"reply4", rfp.Config{Mode: rfp.Reply, Batch: 4}, nil},
		{"fetch4", rfp.Config{Mode: rfp.Fetch, Batch: 4}, nil},
	}
	for i := range rows {
		rows[i].call = alone(b, rows[i].cfg)
	}
	var times [4][]float64
	for range b.N {
		for range 7 {
			for i := range rows {
				times[i] = append(times[i], clock.Loop(50*time.Millisecond, 64, rows[i].call))
			}
		}
	}
	for i, r := range rows {
		b.ReportMetric(benchrows.Median(times[i]), r.name+"-ns")
	}
	ratio := func(i, j int) float64 {
		var list []float64
		for k := range times[i] {
			list = append(list, times[i][k]/times[j][k])
		}
		slices.Sort(list)
		return list[len(list)/2]
	}
	b.ReportMetric(ratio(0, 1), "fetch/reply")
	b.ReportMetric(ratio(1, 3), "fetch4/fetch")
}

// alone returns a function that makes 64 calls of 48 bytes and waits for them.
func alone(b *testing.B, cfg rfp.Config) func() {
	cfg.Geometry = rfp.Geometry{Slots: 16, Request: 512, Response: 512}
	link, other := shmPair(b, cfg.Geometry)
	s, err := rfp.NewServer(rfp.ServerConfig{Geometry: cfg.Geometry})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	s.Handle(1, func(req, resp []byte) ([]byte, error) { return append(resp, req...), nil })
	if err := s.Serve(other); err != nil {
		b.Fatal(err)
	}
	c, err := rfp.NewClient(link, cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	ended, sent, now := 0, 0, rfp.Time(1)
	q := rfp.Call{Kind: 1, Body: make([]byte, 48), Done: func(_ uint64, resp []byte, err error) {
		if err != nil || len(resp) != 48 {
			b.Error(err)
		}
		ended++
	}}
	return func() {
		for want := ended + 64; ended < want; {
			for sent < want && c.Ready() && c.Send(&q) == nil {
				sent++
			}
			now++
			c.Poll(now)
			s.Poll(16)
		}
	}
}

// shmPair joins two sides by shared memory in this process.
func shmPair(b *testing.B, g rfp.Geometry) (client, server onesided.Link) {
	b.Helper()
	path := filepath.Join(b.TempDir(), "s")
	l, err := shm.Listen(path, rfp.ServerSpecs(g), rfp.ClientSpecs(g))
	if err != nil {
		b.Fatal(err)
	}
	x, err := shm.Dial(path, rfp.ClientSpecs(g), rfp.ServerSpecs(g))
	if err != nil {
		b.Fatal(err)
	}
	y, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	return x, y
}
