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
	if os.Getenv(childEnv) != "" {
		if err := replicaProcess(os.Stdin, os.Stdout); err != nil {
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
	if err := run(t.Context(), []string{"-keys=100", "-rounds=1", "-each=50ms", "-json"}, &out, &progress); err != nil {
		t.Fatal(err, progress.String())
	}
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || len(r.GRPC) != 2 || r.GRPC[0].Put.P50 == 0 || r.GRPC[1].Put.P50 == 0 || r.GRPC[1].Plain.P50 == 0 || len(r.Ours) == 0 || r.Ours[0].Puts == 0 {
		t.Errorf("%v: %s", err, out.String())
	}
}

// TestUsage: bad flags are refused.
func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"-keys=0"}, {"-each=1h"}, {"-nonsense"}} {
		var out, progress bytes.Buffer
		if err := run(t.Context(), args, &out, &progress); err == nil || out.Len() > 0 {
			t.Errorf("%v: %v", args, err)
		}
	}
}
