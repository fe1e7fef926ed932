package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/userspace-rpc/erpc/labs/ycsb/peer"
	"github.com/userspace-rpc/erpc/labs/ycsb/run"
	"github.com/userspace-rpc/erpc/labs/ycsb/store"
	"github.com/userspace-rpc/erpc/ycsb"
)

const records = 300

// server serves a loaded store, and returns what ends it.
func server(t *testing.T, name, kind string) (*peer.Server, store.Store) {
	t.Helper()
	s, err := store.Open(store.Config{Kind: kind, Records: 10 * records, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Load(s, ycsb.Schema{}, records); err != nil {
		t.Fatal(err)
	}
	srv, err := peer.Listen(name, "", &store.Service{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { _ = srv.Serve(); close(served) }()
	t.Cleanup(func() {
		_ = srv.Close() // some tests have closed it
		<-served
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return srv, s
}

func spec(t *testing.T, workload string, ops int64) run.Spec {
	t.Helper()
	w, err := ycsb.Standard(workload)
	if err != nil {
		t.Fatal(err)
	}
	return run.Spec{Workload: w, Records: records, Clients: 4, Conns: 2, Ops: ops, Seed: 1}
}

func do(t *testing.T, s run.Spec, name, addr string) *run.Result {
	t.Helper()
	r, err := run.Do(t.Context(), s, func(int) (ycsb.DB, error) {
		c, err := peer.Dial(t.Context(), name, addr)
		if err == nil {
			t.Cleanup(func() { _ = c.Close() }) // perhaps of a server that has gone
		}
		return c, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestPeersAndStores: each workload over each peer and on each store, all answers right.
// TestResultOfNothing: a run in which nothing was done is an object too.
func TestResultOfNothing(t *testing.T) {
	r := run.Result{Hists: [ycsb.Ops]*hdrhistogram.Histogram{run.NewHist()}}
	text, err := json.Marshal(&r)
	if err != nil || !json.Valid(text) {
		t.Errorf("%s, %v", text, err)
	}
}

func TestPeersAndStores(t *testing.T) {
	for _, kind := range store.Kinds {
		for _, name := range peer.Names {
			if kind != "index" && name != "erpc-udp" {
				continue
			}
			srv, _ := server(t, name, kind)
			for i, workload := range ycsb.Names {
				s := spec(t, workload, 200)
				// Runs on one store insert the same records anew, in versions of their own.
				s.First = uint32(1 + 100*i)
				if peer.Alone(name) {
					s.Conns = 0
				}
				if err := store.Supports(kind, s.Workload); err != nil {
					if !errors.Is(err, store.ErrNoScans) || workload != "e" {
						t.Error(err)
					}
					continue
				}
				r := do(t, s, name, srv.Addr)
				if err := r.Err(); err != nil || r.Ops() != 200 {
					t.Errorf("%s on %s, workload %s: %d done, %v", name, kind, workload, r.Ops(), err)
				}
			}
		}
	}
}

// TestDirect: each workload without a transport, all answers right; records that are not there are
// named as over the others.
func TestDirect(t *testing.T) {
	_, s := server(t, "erpc-udp", "index")
	c := peer.Direct(&store.Service{Store: s})
	for i, workload := range ycsb.Names {
		sp := spec(t, workload, 200)
		sp.First = uint32(1 + 100*i)
		r, err := run.Do(t.Context(), sp, func(int) (ycsb.DB, error) { return c, nil })
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Err(); err != nil || r.Ops() != 200 {
			t.Errorf("workload %s: %d done, %v", workload, r.Ops(), err)
		}
	}
	if _, err := c.Read(t.Context(), []byte("nobody")); !errors.Is(err, ycsb.ErrNotFound) {
		t.Errorf("a key that is not there: %v", err)
	}
}

// TestMissingAndChanged: records that go or change under a run are counted.
func TestMissingAndChanged(t *testing.T) {
	for _, name := range peer.Names {
		srv, s := server(t, name, "index")
		c := spec(t, "c", 300)
		c.Records = 2 * records // half of them were never loaded
		if peer.Alone(name) {
			c.Conns = 0
		}
		r := do(t, c, name, srv.Addr)
		if n := r.Counts; n.Missing == 0 || n.Done == 0 || n.Missing+n.Done != 300 || r.Err() == nil {
			t.Errorf("%s: %+v", name, n)
		}
		for i := range int64(records) {
			if err := s.Insert(ycsb.AppendKey(nil, i), make([]byte, 1000)); err != nil {
				t.Fatal(err)
			}
		}
		c.Records = records
		if r := do(t, c, name, srv.Addr); r.Counts.Wrong != 300 || r.Err() == nil {
			t.Errorf("%s: %+v", name, r.Counts)
		}
	}
}

// dying ends the server after so many calls.
type dying struct {
	ycsb.DB
	left *atomic.Int64
	kill func() error
}

func (d dying) call() {
	if d.left.Add(-1) == 0 {
		go func() { _ = d.kill() }()
	}
}

// mortal is a DB for reads of a dying server.
type mortal struct{ dying }

func (m mortal) Read(ctx context.Context, key []byte) ([]byte, error) {
	m.call()
	return m.DB.Read(ctx, key)
}

// TestServerDies: the run ends, what was measured before is kept, and the error says what happened.
func TestServerDies(t *testing.T) {
	for _, name := range []string{"grpc-tcp", "drpc", "erpc-udp"} {
		srv, _ := server(t, name, "index")
		s := spec(t, "c", 1<<40)
		s.GiveUp, s.Conns = 50*time.Millisecond, 0
		var left atomic.Int64
		left.Store(500)
		r, err := run.Do(t.Context(), s, func(int) (ycsb.DB, error) {
			c, err := peer.Dial(t.Context(), name, srv.Addr)
			if err != nil {
				return nil, err
			}
			t.Cleanup(func() { _ = c.Close() })
			return mortal{dying{c, &left, srv.Close}}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if r.Ops() < 490 || r.Counts.Failed == 0 || r.Lost != 4 || r.Err() == nil || r.Counts.Bad() != 0 {
			t.Errorf("%s: %d done, %+v, %d lost, %v", name, r.Ops(), r.Counts, r.Lost, r.Err())
		}
		if text, err := r.MarshalJSON(); err != nil || len(text) == 0 {
			t.Error(err)
		}
	}
}

func TestBadSpecs(t *testing.T) {
	for name, change := range map[string]func(*run.Spec){
		"clients": func(s *run.Spec) { s.Clients = 0 },
		"records": func(s *run.Spec) { s.Records = 0 },
		"end":     func(s *run.Spec) { s.Ops = 0 },
	} {
		s := spec(t, "a", 1)
		change(&s)
		if _, err := run.Do(t.Context(), s, nil); !errors.Is(err, run.ErrSpec) {
			t.Errorf("%s: %v", name, err)
		}
	}
	down := errors.New("down")
	_, err := run.Do(t.Context(), spec(t, "a", 1), func(int) (ycsb.DB, error) { return nil, down })
	if !errors.Is(err, down) {
		t.Error(err)
	}
}
