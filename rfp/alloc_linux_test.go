package rfp

import (
	"path/filepath"
	"testing"

	"github.com/userspace-rpc/erpc/rfp/onesided"
	"github.com/userspace-rpc/erpc/rfp/onesided/shm"
)

// blind is a link without a view.
type blind struct{ onesided.Link }

func (blind) View(int) []byte { return nil }

// shmPair joins two sides by shared memory in this process.
func shmPair(t testing.TB, g Geometry) (client, server onesided.Link) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := shm.Listen(path, ServerSpecs(g), ClientSpecs(g))
	if err != nil {
		t.Fatal(err)
	}
	x, err := shm.Dial(path, ClientSpecs(g), ServerSpecs(g))
	if err != nil {
		t.Fatal(err)
	}
	y, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return x, y
}

// TestNoAllocation holds that calls allocate nothing on either side, once memory is warm.
func TestNoAllocation(t *testing.T) {
	for name, cfg := range map[string]Config{
		"view": {}, "fetch": {Mode: Fetch}, "reply": {Mode: Reply}, "behind": {First: Behind},
		"batch": {Batch: 8}, "sum": {Checksum: true}, "limit": {Batch: 8, Limit: 1000},
	} {
		for _, view := range []bool{true, false} {
			t.Run(name, func(t *testing.T) { noAllocation(t, cfg, view) })
		}
	}
}

func noAllocation(t *testing.T, cfg Config, view bool) {
	cfg.Geometry = Geometry{Slots: 4, Request: 512, Response: 512}
	link, other := shmPair(t, cfg.Geometry)
	if !view {
		link = blind{link}
	}
	s, err := NewServer(ServerConfig{Geometry: cfg.Geometry, Checksum: cfg.Checksum})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Handle(1, func(req, resp []byte) ([]byte, error) { return append(resp, req...), nil })
	if err := s.Serve(other); err != nil {
		t.Fatal(err)
	}
	c, err := NewClient(link, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	now, sent, ended, failed := Time(1), 0, 0, error(nil)
	poll := func() {
		now++
		c.Poll(now)
		s.Poll(8)
	}
	for !c.Ready() {
		poll()
	}
	q := Call{Kind: 1, Body: make([]byte, 32), Deadline: 1 << 60, Done: func(_ uint64, _ []byte,
		err error) {
		ended++
		failed = err
	}}
	round := func() {
		for want := sent + 8; ended < want; {
			for sent < want && c.Ready() && c.Send(&q) == nil {
				sent++
			}
			poll()
		}
	}
	round()
	if n := testing.AllocsPerRun(500, round); n != 0 || failed != nil {
		t.Errorf("%v allocations in 8 calls, view %v; %v", n, view, failed)
	}
}
