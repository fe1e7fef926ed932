package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReleaseRefuses: scripts/release says what is wrong with a version or the tree before it makes
// anything. That it makes a release is seen by make rehearsal.
func TestReleaseRefuses(t *testing.T) {
	dir := t.TempDir()
	script, err := os.ReadFile(filepath.Join(top, "scripts", "release"))
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) {
		t.Helper()
		who := []string{"-c", "user.name=test", "-c", "user.email=test@localhost"}
		cmd := exec.Command("git", append(who, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	expect := func(want string, args ...string) {
		t.Helper()
		out, err := exec.Command(filepath.Join(dir, "scripts", "release"), args...).CombinedOutput()
		if err == nil || !strings.HasPrefix(string(out), "release: "+want) ||
			strings.Count(string(out), "\n") != 1 {
			t.Errorf("%q: %v, %q, want %q", args, err, out, want)
		}
	}
	write("scripts/release", string(script))
	git("init", "-q")
	git("add", "-A")
	git("commit", "-qm", "all")
	git("tag", "v0.3.0")
	git("tag", "grpcerpc/v0.4.0")

	expect("usage: ")
	expect("usage: ", "--dry-run", "v0.2.0", "v0.2.1")
	for _, version := range []string{"", "0.2.0", "v0.2", "v0.02.0", "v0.2.0.1", "v0.2.0-", "v0.2.0+1",
		"latest", "v0.2.0 "} {
		expect(`"`+version+`" is no semantic version`, "--dry-run", version)
	}
	expect("v2.0.0: from v2 on", "v2.0.0")
	expect("there is a tag v0.3.0", "v0.3.0")
	expect("there is a tag grpcerpc/v0.4.0", "--dry-run", "v0.4.0")
	expect("docs/releases/v0.2.0.md is missing", "v0.2.0")
	write("new", "")
	expect("the tree has changes", "--dry-run", "v0.2.0")
}
