package erpc_test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestDependencies: a program of erpc and transport/udp depends on golang.org/x/sys and nothing
// else beyond the standard library and this module.
func TestDependencies(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}",
		"github.com/userspace-rpc/erpc/erpc", "github.com/userspace-rpc/erpc/transport/udp")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	own := 0
	for _, path := range strings.Fields(string(out)) {
		switch {
		case strings.HasPrefix(path, "github.com/userspace-rpc/erpc/"):
			own++
		case !strings.HasPrefix(path, "golang.org/x/sys/"):
			t.Errorf("it depends on %s", path)
		}
	}
	if own < 10 {
		t.Errorf("the list has %d packages of this module only", own)
	}
}
