package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/userspace-rpc/erpc/labs/ycsb/peer"
	"github.com/userspace-rpc/erpc/labs/ycsb/run"
	"github.com/userspace-rpc/erpc/labs/ycsb/store"
	"github.com/userspace-rpc/erpc/ycsb"
)

// TestMain is also the server process that the commands start.
func TestMain(m *testing.M) {
	if os.Getenv(childFlag) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// try runs a command line.
func try(t *testing.T, line string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := command(t.Context(), strings.Fields(line), &out)
	return out.String(), err
}

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestBadCommands: what is unknown or makes no sense is named, before any server starts.
func TestBadCommands(t *testing.T) {
	for line, is := range map[string]error{
		"":                                   errUsage,
		"walk":                               errUsage,
		"run -workload g":                    ycsb.ErrUnknownWorkload,
		"compare -workloads ag -peers drpc":  ycsb.ErrUnknownWorkload,
		"run -peer carrier-pigeon":           peer.ErrUnknown,
		"compare -peers grpc-tcp,pigeon":     peer.ErrUnknown,
		"run -store shelf":                   store.ErrUnknown,
		"run -store mica -workload e":        store.ErrNoScans,
		"compare -store mica -workloads e":   store.ErrNoScans,
		"run -fields 0 -field-bytes -1":      ycsb.ErrSchema,
		"load -peer erpc-udp -addr nonsense": nil,
		"run -workload c more":               nil,
		"run -walk":                          nil,
	} {
		out, err := try(t, line)
		if err == nil || is != nil && !errors.Is(err, is) || out != "" {
			t.Errorf("%q: %v, want %v; printed %q", line, err, is, out)
		}
	}
	_, err := try(t, "run -h")
	want(t, "help", err, nil)
	if _, err := parse([]string{"run", "-h"}); !errors.Is(err, flag.ErrHelp) {
		t.Error(err)
	}
}

// child1 starts a server process with so many records in it.
func child1(t *testing.T, preload int64) *child {
	t.Helper()
	o, err := parse([]string{"run", "-records", fmt.Sprint(preload)})
	if err != nil {
		t.Fatal(err)
	}
	c, err := startServer(o, "erpc-udp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.stop() }) // some tests have killed it
	return c
}

// counted is the beginning of a run that ends after so many operations.
const counted = "run -peer erpc-udp -for 0 -warmup 0 "

// TestLoadAndRun: records are loaded over the network, a run on them finds all, and leaves JSON and
// a log of histograms that a reader of such logs takes.
func TestLoadAndRun(t *testing.T) {
	c := child1(t, 0)
	out, err := try(t, "load -peer erpc-udp -records 300 -addr "+c.addr)
	if err != nil || !strings.HasPrefix(out, "300 records in ") {
		t.Fatalf("%q, %v", out, err)
	}
	file := filepath.Join(t.TempDir(), "log.hdr")
	out, err = try(t, counted+"-workload a -records 300 -ops 900 -clients 8 -json -hdr "+file+
		" -addr "+c.addr)
	if err != nil {
		t.Fatal(err)
	}
	checkJSON(t, out, 900)
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seen, log := map[string]int64{}, hdrhistogram.NewHistogramLogReader(f)
	for {
		h, err := log.NextIntervalHistogram()
		if err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if h == nil {
			break
		}
		seen[h.Tag()] += h.TotalCount()
	}
	if seen["read"]+seen["update"] != 900 || seen["read"] == 0 || seen["update"] == 0 {
		t.Errorf("the log has %v", seen)
	}
	text, err := try(t, counted+"-workload e -records 300 -ops 20 -addr "+c.addr)
	if err != nil || !strings.Contains(text, "scan") || !strings.Contains(text, "p99.9 us") {
		t.Errorf("%v:\n%s", err, text)
	}
}

func checkJSON(t *testing.T, text string, ops int64) {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"done", "ops_per_s"} {
		if n, ok := all[name].(float64); !ok || n <= 0 || name == "done" && int64(n) != ops {
			t.Errorf("%s is %v in\n%s", name, all[name], text)
		}
	}
}

// TestMissing: a run on records that were never loaded counts them, prints what it has measured,
// and fails.
func TestMissing(t *testing.T) {
	c := child1(t, 100)
	out, err := try(t, counted+"-workload c -records 200 -ops 400 -addr "+c.addr)
	if err == nil || !strings.Contains(err.Error(), " missing") ||
		strings.HasPrefix(err.Error(), "0") || !strings.Contains(out, "read") {
		t.Errorf("%v:\n%s", err, out)
	}
}

// TestServerKilled: a server that is killed in the middle of a run ends it with an error that
// counts the clients, and what was measured before is printed.
func TestServerKilled(t *testing.T) {
	c := child1(t, 300)
	o, err := parse(strings.Fields("run -records 300 -for 1h -warmup 0 -clients 4 -addr " + c.addr))
	if err != nil {
		t.Fatal(err)
	}
	spec, err := o.spec("b", o.peer)
	if err != nil {
		t.Fatal(err)
	}
	before := int64(0)
	spec.Each = func(p run.Progress) {
		if before == 0 && p.Ops > 0 {
			before = p.Ops
			if err := c.cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	r, err := measure(t.Context(), o, o.peer, spec)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := printResult(&out, r); err != nil || !strings.Contains(out.String(), "read") {
		t.Errorf("%v:\n%s", err, &out)
	}
	err = r.Err()
	if r.Ops() < before || err == nil || !strings.Contains(err.Error(), "4 of 4 clients gave up") {
		t.Errorf("%d done, %d of them before the end: %v", r.Ops(), before, err)
	}
}

// TestLoadKilled: a load into a server that is killed says how many records it took.
func TestLoadKilled(t *testing.T) {
	c := child1(t, 0)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := peer.Dial(ctx, "erpc-udp", c.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() {
		for ctx.Err() == nil { // until the first record is there
			if _, err := conn.Read(ctx, ycsb.AppendKey(nil, 0)); err == nil {
				break
			}
		}
		if err := c.cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
	}()
	line := "load -peer erpc-udp -records 1000000000 -addr " + c.addr
	err = command(ctx, strings.Fields(line), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "records are loaded, then") || ctx.Err() != nil {
		t.Errorf("load: %v", err)
	}
}

// TestCompare: a table with the paper's figures, JSON and a drawing.
func TestCompare(t *testing.T) {
	dir := t.TempDir()
	out, err := try(t, "compare -workloads cf -peers grpc-tcp,erpc-udp,none -rounds 2 -ops 150 "+
		"-for 0 -warmup 0 -records 200 -clients 4 -out "+dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"grpc-tcp", "erpc-udp", "2.04", "2.35"} {
		if !strings.Contains(out, part) {
			t.Errorf("%q is not in\n%s", part, out)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "index-200-4.json"))
	var cells []struct {
		Workload, Peer string
		Rounds         []any
		Ratio          [3]float64 `json:"rate_ratio"`
	}
	if err = errors.Join(err, json.Unmarshal(text, &cells)); err != nil {
		t.Fatal(err)
	}
	want(t, "cells", len(cells), 6)
	for _, c := range cells {
		r := c.Ratio
		if len(c.Rounds) != 2 || r[1] <= 0 || r[1] > r[0] || r[0] > r[2] {
			t.Errorf("%+v", c)
		}
	}
	drawing, err := os.ReadFile(filepath.Join(dir, "index-200-4.svg"))
	if err != nil || !bytes.Contains(drawing, []byte("RR-Compound")) {
		t.Errorf("the drawing has %d bytes: %v", len(drawing), err)
	}
}
