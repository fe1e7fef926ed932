package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

// TestMain: started as a replica, the test is one.
func TestMain(m *testing.M) {
	if system := os.Getenv(childEnv); system != "" {
		if err := runMember(system, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestRun: both stores work, and figures come out.
func TestRun(t *testing.T) {
	var out, progress bytes.Buffer
	if err := run(t.Context(), []string{"-keys=100", "-rounds=1", "-each=50ms", "-json"}, &out,
		&progress); err != nil {
		t.Fatal(err, progress.String())
	}
	var r report
	err := json.Unmarshal(out.Bytes(), &r)
	if err != nil || len(r.GRPC) != 2 || r.GRPC[0].Put.P50 == 0 || r.GRPC[1].Put.P50 == 0 ||
		r.GRPC[1].Plain.P50 == 0 || len(r.Ours) == 0 || r.Ours[0].Puts == 0 {
		t.Errorf("%v: %s", err, out.String())
	}
}

// TestLoad: all systems work under load, and figures come out. etcd's own start takes seconds.
func TestLoad(t *testing.T) {
	list := "erpc,erpc-loop-lease,grpc-go,etcd,hashi-tcp,hraft"
	if testing.Short() {
		list = "erpc,erpc-loop-lease"
	}
	var out, progress bytes.Buffer
	args := []string{"load", "-systems=" + list, "-keys=20", "-rounds=1", "-each=20ms", "-clients=4",
		"-endpoints=2",
		"-memory=" + t.TempDir(), "-durable=" + t.TempDir(), "-json"}
	if err := run(t.Context(), args, &out, &progress); err != nil {
		t.Fatal(err, progress.String())
	}
	var rows []row
	if err := json.Unmarshal(out.Bytes(), &rows); err != nil {
		t.Fatal(err)
	}
	if want := map[bool]int{true: 3, false: 10}[testing.Short()]; len(rows) != want {
		t.Errorf("%d rows, want %d", len(rows), want)
	}
	for _, r := range rows {
		for _, k := range []kind{r.Put, r.Get, r.HalfPut, r.HalfGet} {
			if k.PerSecond == 0 || k.P50 == 0 || k.P99 < k.P50 || r.Durable && r.Fsync == 0 {
				t.Errorf("%+v", r)
			}
		}
	}
}

// TestOpenLoop: as many requests begin as the rate says, whether those before have ended or not,
// and their times are those from when they were due.
func TestOpenLoop(t *testing.T) {
	began := monotime.Now()
	const rate, each = 10_000, 100 * time.Millisecond
	first := true
	g := &goroutines{callers: []caller{func(context.Context, bool, string, []byte) error {
		for first && monotime.Now() < began.Add(2*each) { // all others are due meanwhile
		}
		first = false
		return nil
	}}}
	d, err := g.run(t.Context(), &job{keys: 1, each: each, rate: rate})
	if n := d.hist.TotalCount(); err != nil || n < 800 || n > 1200 {
		t.Errorf("%d requests, want about 1000: %v", n, err)
	}
	if least := d.hist.Min(); least < int64(each/2) {
		t.Errorf("one took %d ns: it was due long before", least)
	}
}

// TestBehind: an open loop that the system cannot follow fails.
func TestBehind(t *testing.T) {
	now := monotime.Now()
	err := feed(1e9, now, now.Add(time.Hour), make(chan monotime.Time, 10))
	if !errors.Is(err, errBehind) {
		t.Error(err)
	}
}

// TestFailing: the error of a request ends the job.
func TestFailing(t *testing.T) {
	bad := errors.New("bad")
	call := func(context.Context, bool, string, []byte) error { return bad }
	g := &goroutines{callers: []caller{call, call}}
	for _, rate := range []float64{0, 1000} {
		if _, err := g.run(t.Context(), &job{keys: 1, each: 50 * time.Millisecond,
			rate: rate}); !errors.Is(err, bad) {
			t.Errorf("rate %v: %v", rate, err)
		}
	}
	if err := g.fill(t.Context(), 10); !errors.Is(err, bad) {
		t.Error(err)
	}
}

// TestUsage: bad flags are refused.
func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"-keys=0"}, {"-each=1h"}, {"-nonsense"},
		{"load", "-systems=nobody"},
		{"load", "-clients=0"}, {"load", "-endpoints=65"}} {
		var out, progress bytes.Buffer
		if err := run(t.Context(), args, &out, &progress); err == nil || out.Len() > 0 {
			t.Errorf("%v: %v", args, err)
		}
	}
}
