package rdma

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/verbs"
	"github.com/userspace-rpc/erpc/kv/herd"
	"github.com/userspace-rpc/erpc/kv/mica"
)

// needDevices skips a test where there are no devices rxe0 and rxe1, those of scripts/rdma-lab.
func needDevices(t testing.TB) {
	t.Helper()
	names, err := verbs.Devices()
	if slices.Contains(names, "rxe0") && slices.Contains(names, "rxe1") {
		return
	}
	if os.Getenv("RDMA_LAB") != "" {
		t.Fatalf("devices %v, %v, and this is the lab", names, err)
	}
	t.Skipf("no devices rxe0 and rxe1 (%v): see scripts/rdma-lab", err)
}

// serve runs a server on rxe1 until the test ends.
func serve(t testing.TB, cfg Config) *Server {
	t.Helper()
	needDevices(t)
	cfg.Store.Memory, cfg.Store.NoHugepages = 4<<20, true
	s, err := Listen("10.9.0.2:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve() }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
	return s
}

// dial opens a client on rxe0 until the test ends.
func dial(t testing.TB, s *Server, d Design) *Client {
	t.Helper()
	c, err := Dial(t.Context(), s.Addr().String(), ClientConfig{Design: d, Device: "rxe0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// patience is how long a test waits for an event before it fails.
const patience = 100 * time.Second

// settle polls until nothing is under way.
func settle(t testing.TB, c *Client) {
	t.Helper()
	until(t, c, func() bool { return c.Pending() == 0 })
}

func until(t testing.TB, c *Client, fn func() bool) {
	t.Helper()
	end := time.Now().Add(patience)
	err := c.Run(func() bool {
		if time.Now().After(end) {
			t.Fatalf("still %d operations under way: %+v", c.Pending(), c.Counts())
		}
		return fn()
	})
	if err != nil {
		t.Fatal(err)
	}
}

var designs = []Design{Herd, Send, Write}

// each runs a test with each design.
func each(t *testing.T, cfg Config, test func(t *testing.T, s *Server, d Design)) {
	for _, d := range designs {
		t.Run(string(d), func(t *testing.T) {
			cfg := cfg
			if d != Write && cfg.Geometry.Partitions == 0 {
				cfg.Geometry.Partitions = 2
			}
			test(t, serve(t, cfg), d)
		})
	}
}

// TestOperations: all operations, small values and those that are not inlined.
func TestOperations(t *testing.T) {
	each(t, Config{}, func(t *testing.T, s *Server, d Design) {
		c := dial(t, s, d)
		large := bytes.Repeat([]byte("large"), 180)
		var got []string
		note := func(r Result) {
			text := fmt.Sprintf("%d: %.8q %d %v", r.Tag, r.Value.Value, r.Number, r.Err)
			if r.Tag == 4 && !bytes.Equal(r.Value.Value, large) {
				text += " not what was put"
			}
			got = append(got, text)
		}
		for _, err := range []error{
			c.Get([]byte("apple"), 0, note), step(t, c),
			c.Put([]byte("apple"), []byte("red"), 1, note), step(t, c),
			c.Get([]byte("apple"), 2, note), step(t, c),
			c.Put([]byte("pear"), large, 3, note), step(t, c),
			c.Get([]byte("pear"), 4, note), step(t, c),
			c.Put([]byte("count"), []byte("41"), 5, note), step(t, c),
			c.Increment([]byte("count"), 1, 6, note), step(t, c),
			c.Delete([]byte("apple"), 7, note), step(t, c),
			c.Delete([]byte("apple"), 8, note), step(t, c),
			c.Increment([]byte("pear"), 1, 9, note), step(t, c),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		want := []string{`0: "" 0 ` + mica.ErrNotFound.Error(), `1: "" 0 <nil>`, `2: "red" 0 <nil>`,
			`3: "" 0 <nil>`, `4: "largelar" 0 <nil>`, `5: "" 0 <nil>`, `6: "" 42 <nil>`,
			`7: "" 0 <nil>`, `8: "" 0 ` + mica.ErrNotFound.Error(), `9: "" 0 ` + mica.ErrNumber.Error()}
		if !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		if err := c.Put([]byte("k"), make([]byte, 1024), 0, note); err != herd.ErrTooBig {
			t.Errorf("a value larger than a slot: %v", err)
		}
	})
}

func step(t testing.TB, c *Client) error {
	settle(t, c)
	return nil
}
