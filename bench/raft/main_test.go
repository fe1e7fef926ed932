package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"testing"
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
	list := "erpc,grpc-go,etcd,hashi-tcp,hraft"
	if testing.Short() {
		list = "erpc"
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
	if want := map[bool]int{true: 2, false: 9}[testing.Short()]; len(rows) != want {
		t.Errorf("%d rows, want %d", len(rows), want)
	}
	for _, r := range rows {
		if r.Put.PerSecond == 0 || r.Get.PerSecond == 0 || r.Put.P50 == 0 || r.Durable && r.Fsync == 0 {
			t.Errorf("%+v", r)
		}
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
