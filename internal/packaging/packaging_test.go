package packaging

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const top = "../.."

// output runs a command in the repository's root.
func output(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = top
	cmd.Env = append(os.Environ(), env...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, errs.String())
	}
	return string(out)
}

// TestOneDependency: a program that imports erpc and transport/udp gets golang.org/x/sys, and
// nothing else that is not Go's own.
func TestOneDependency(t *testing.T) {
	for _, system := range []string{"linux", "darwin", "windows"} {
		out := output(t, []string{"GOOS=" + system, "CGO_ENABLED=0"}, "go", "list", "-deps", "-f",
			"{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", "./erpc", "./transport/udp")
		mods := strings.Fields(out)
		slices.Sort(mods)
		if got := slices.Compact(mods); !slices.Equal(got, []string{"golang.org/x/sys"}) {
			t.Errorf("%s: %q, want golang.org/x/sys alone", system, got)
		}
	}
}

// TestLicenses: THIRD_PARTY.txt lists what the commands link today.
func TestLicenses(t *testing.T) {
	output(t, nil, "go", "run", "./scripts/thirdparty", "-check", "THIRD_PARTY.txt")
}

// dockerfile returns the instructions of the Dockerfile, one a string.
func dockerfile(t *testing.T) (list []string) {
	t.Helper()
	f, err := os.Open(filepath.Join(top, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if line := strings.TrimSpace(s.Text()); line != "" && line[0] != '#' {
			list = append(list, line)
		}
	}
	return list
}

// TestDockerfile checks what no build would: the last stage has nothing to run as root, and what
// it copies exists.
func TestDockerfile(t *testing.T) {
	list := dockerfile(t)
	last := 0
	for i, line := range list {
		if strings.HasPrefix(line, "FROM ") {
			last = i
		}
		if f := strings.Fields(line); f[0] == "COPY" && !strings.HasPrefix(f[1], "--from") {
			for _, name := range f[1 : len(f)-1] {
				if _, err := os.Stat(filepath.Join(top, name)); err != nil {
					t.Error(err)
				}
			}
		}
	}
	final := strings.Join(list[last:], "\n")
	if !strings.HasPrefix(final, "FROM scratch\n") || strings.Contains(final, "\nRUN ") {
		t.Errorf("the last stage has more than files:\n%s", final)
	}
	if !regexp.MustCompile(`(?m)^USER [1-9][0-9]*:[1-9][0-9]*$`).MatchString(final) {
		t.Error("the last stage has no numeric user other than root: Kubernetes' runAsNonRoot wants one")
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(
		output(t, nil, "cat", "go.mod"))
	if base := "FROM golang:" + version[1] + " "; !strings.HasPrefix(list[0], base) {
		t.Errorf("%q, want the version of go.mod, %q", list[0], base)
	}
}

// TestReleaseFiles: the programs and files that .goreleaser.yaml names exist, and a release has
// notes. make release-check asks goreleaser itself about the configuration.
func TestReleaseFiles(t *testing.T) {
	text := output(t, nil, "cat", ".goreleaser.yaml")
	mains := regexp.MustCompile(`(?m)^ +main: \./(\S+)$`).FindAllStringSubmatch(text, -1)
	_, files, found := strings.Cut(text, "    files:\n")
	list, _, _ := strings.Cut(files, "\n\n")
	named := strings.Fields(strings.ReplaceAll(list, "- ", ""))
	if len(mains) < 3 || !found || len(named) < 4 {
		t.Fatalf("%d programs, %d files: has the form changed?", len(mains), len(named))
	}
	for _, m := range mains {
		named = append(named, m[1]+"/main.go")
	}
	for _, name := range append(named, "docs/releases") {
		if _, err := os.Stat(filepath.Join(top, name)); err != nil {
			t.Error(err)
		}
	}
}
