package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestModules: scripts/modules runs the command in each module, goes on when one fails, and fails
// then. It keeps the output of each for this command.
func TestModules(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("scripts/modules needs bash")
	}
	script, err := filepath.Abs("../modules")
	if err != nil {
		t.Fatal(err)
	}
	const all = ". ./a ./b/c"
	for _, jobs := range []string{"1", "2"} {
		for _, bad := range strings.Fields(all + " none") {
			dir := t.TempDir()
			for _, m := range []string{"a", "b/c"} {
				if err := os.MkdirAll(filepath.Join(dir, m), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command(bash, script, jobs, "logs", all,
				`echo "here is $module"; test "$module" != `+bad)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			if (err == nil) != (bad == "none") {
				t.Errorf("%s jobs, %s fails: %v\n%s", jobs, bad, err, out)
			}
			for m, log := range map[string]string{".": "root", "./a": "a", "./b/c": "b_c"} {
				said, err := os.ReadFile(filepath.Join(dir, "logs", log+".log"))
				if err != nil || string(said) != "here is "+m+"\n" {
					t.Errorf("%s jobs: the log of %s: %q, %v", jobs, m, said, err)
				}
				word := " ok\n"
				if m == bad {
					word = " FAILED\n"
				}
				if !lineHas(string(out), m, word) {
					t.Errorf("%s jobs: %s is not%s%s", jobs, m, word, out)
				}
			}
		}
	}
}

// lineHas reports whether a line names the module and ends so.
func lineHas(out, module, end string) bool {
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) == 4 && f[1] == "s" && f[2] == module && strings.HasSuffix(line, end) {
			return true
		}
	}
	return false
}
