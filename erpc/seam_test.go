package erpc_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestSeamInlines: what the event loop asks its engine for each packet costs no call.
func TestSeamInlines(t *testing.T) {
	out, err := exec.Command("go", "build", "-gcflags=-m", "./internal/engine").CombinedOutput()
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("go build: %v: %s", err, out)
		}
		t.Skipf("no Go here that builds the package: %v: %s", err, out)
	}
	for _, name := range []string{
		"(*Engine).Now", "(*Engine).SetNow", "(*Engine).SetUnseen", "(*Engine).Hand",
		"(*Engine).Sealing", "(*Engine).OpenedBy", "(*Engine).Recycle", "(*Engine).Cold",
		"(*Engine).HasConnects", "(*Engine).Paced", "(*Engine).NextScan", "(*Engine).Activate",
		"(*Engine).Active", "(*Engine).NextLook", "(*Conn).Open", "(*Conn).Ended", "(*Conn).Prefetch",
	} {
		if !strings.Contains(string(out), ": can inline "+name+"\n") {
			t.Errorf("%s is not inlined", name)
		}
	}
}
