package pages

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// plan is a row of commands.txt.
type plan struct {
	how     string
	pattern *regexp.Regexp
	reason  string
}

// plans reads commands.txt.
func plans(t *testing.T) (list []plan) {
	t.Helper()
	text, err := os.ReadFile("commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		how, rest, _ := strings.Cut(line, "|")
		end := strings.LastIndex(rest, "|")
		if end < 0 {
			t.Fatalf("no reason column: %s", line)
		}
		p := plan{strings.TrimSpace(how), regexp.MustCompile(strings.TrimSpace(rest[:end])),
			strings.TrimSpace(rest[end+1:])}
		if p.reason == "" && slices.Contains([]string{"flags", "target", "names", "skip"}, p.how) {
			t.Errorf("no reason why it is not run: %s", line)
		}
		list = append(list, p)
	}
	return list
}

// planOf returns the row for a command.
func planOf(list []plan, c command) (plan, bool) {
	i := slices.IndexFunc(list, func(p plan) bool { return p.pattern.MatchString(c.text) })
	if i < 0 {
		return plan{}, false
	}
	return list[i], true
}

var (
	flag   = regexp.MustCompile(`--[a-z][a-z-]*`)
	choice = regexp.MustCompile(`^[a-z-]+(\|[a-z-]+)+$`)
)

// checkFlags compares a command of ours with the help of its program.
func (r *runner) checkFlags(t *testing.T, text string) {
	_, text, _ = strings.Cut(" "+text, "erpc")
	words := strings.Fields("erpc" + text)
	calls := [][]string{{words[0]}}
	for _, w := range words[1:] {
		w = strings.Trim(w, "[]")
		if strings.HasPrefix(w, "-") || strings.ContainsAny(w, ".:/=") || strings.ToUpper(w) == w {
			break
		}
		var next [][]string
		for _, one := range strings.Split(w, "|") {
			for _, c := range calls {
				next = append(next, append(slices.Clone(c), one))
			}
		}
		calls = next
		if !choice.MatchString(w) && len(calls[0]) == 3 {
			break
		}
	}
	for _, c := range calls {
		help := ""
		for ; len(c) > 0; c = c[:len(c)-1] { // the last word may be an argument
			out, err := r.command("", append(slices.Clone(c), "--help")).CombinedOutput()
			if help = string(out); err == nil {
				break
			}
		}
		if len(c) < min(2, len(words)) && !strings.HasPrefix(words[min(1, len(words)-1)], "-") {
			t.Errorf("%q is no subcommand", text)
		}
		for _, f := range flag.FindAllString(text, -1) {
			if !strings.Contains(help, f) {
				t.Errorf("%s has no flag %s", strings.Join(c, " "), f)
			}
		}
	}
}

// checkTarget looks for a target, and for the variables that are set.
func checkTarget(t *testing.T, text string) {
	makefile := read(t, "Makefile") + read(t, "labs/Makefile")
	words := strings.Fields(text[strings.Index(text, "make")+len("make"):])
	for i, w := range words {
		if name, _, ok := strings.Cut(w, "="); ok {
			if !strings.Contains(makefile, "$("+name+")") {
				t.Errorf("the Makefile has no variable %s", name)
			}
			if strings.Contains(w, `"`) {
				return // the rest is its value
			}
		} else if i == 0 {
			target := `(?m)^([^\n#:=]* )?` + regexp.QuoteMeta(w) + `( [^\n:=]*)?:([^=]|$)`
			if !regexp.MustCompile(target).MatchString(makefile) {
				t.Errorf("the Makefile has no target %s", w)
			}
		}
	}
}

// checkNames looks for the tests or benchmarks that a go test command names.
func checkNames(t *testing.T, text string) {
	words := strings.Fields(text)
	var patterns []string
	for i, w := range words {
		switch {
		case w == "-bench" && i+1 < len(words):
			patterns = append(patterns, "Benchmark.*"+strings.Trim(words[i+1], `"`))
		case w == "-run" && i+1 < len(words) && words[i+1] != "xxx":
			patterns = append(patterns, "(Test|Example).*"+words[i+1])
		}
	}
	dir := words[len(words)-1]
	isFolder := func(w string) bool { return strings.HasPrefix(w, "./") }
	if i := slices.IndexFunc(words, isFolder); i >= 0 {
		dir = words[i]
	}
	for _, base := range []string{".", "raft-example", "grpcerpc", "labs"} {
		names, err := filepath.Glob(filepath.Join(top, base, dir, "*_test.go"))
		if err != nil || len(names) == 0 {
			continue
		}
		var all strings.Builder
		for _, name := range names {
			all.WriteString(read(t, strings.TrimPrefix(name, top+"/")))
		}
		for _, p := range patterns {
			if !regexp.MustCompile(`(?m)^func ` + p).MatchString(all.String()) {
				t.Errorf("%s has nothing that matches %s", dir, p)
			}
		}
		return
	}
	t.Errorf("no tests in %s", dir)
}
