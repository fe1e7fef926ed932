package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestSessionsClose: commands leave no session behind once the cluster's version is raised. Before
// that they work as they did.
func TestSessionsClose(t *testing.T) {
	_, cf := testFleet(t, "")
	flags := []string{"--servers", cf.Servers, "--cluster", "5", "--timeout", "30s"}
	do := func(args ...string) string {
		t.Helper()
		status, out, errOut := runCommand(t, append(args[:1:1], append(flags, args[1:]...)...)...)
		if status != 0 {
			t.Fatalf("%v: %s", args, errOut)
		}
		return out
	}
	sessions := func() (most int) {
		var got struct{ Replicas []report }
		if err := json.Unmarshal([]byte(do("status", "--json")), &got); err != nil {
			t.Fatal(err)
		}
		for _, s := range got.Replicas {
			if strings.Contains(s.State, "Leader") {
				most = s.Sessions
			}
		}
		return most
	}
	for range 3 {
		do("put", "k", "v")
	}
	if n := sessions(); n != 3 {
		t.Errorf("%d sessions after three commands in version 0", n)
	}
	do("upgrade")
	for range 3 {
		do("put", "k", "v")
	}
	if n := sessions(); n != 3 {
		t.Errorf("%d sessions after three more", n)
	}
}
