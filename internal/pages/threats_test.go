package pages

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// securityGuard is a block of scripts/guards/guards.txt.
type securityGuard struct {
	file, old string
	pkgs      []string
	run       *regexp.Regexp
	row       bool // of the table names it, with a test that fails without it
}

// guards reads the list of scripts/guards. A value goes on in lines that begin with a tab.
func guards(t *testing.T) map[string]*securityGuard {
	list := map[string]*securityGuard{}
	for block := range strings.SplitSeq(read(t, "scripts/guards/guards.txt"), "\n\n") {
		fields, last := map[string]string{}, ""
		for line := range strings.Lines(block) {
			line = strings.TrimSuffix(line, "\n")
			if more, ok := strings.CutPrefix(line, "\t"); ok {
				fields[last] += "\n" + more
			} else if key, value, ok := strings.Cut(line, ":"); ok && line[0] != '#' {
				fields[key], last = strings.TrimPrefix(value, " "), key
			}
		}
		if name := fields["guard"]; name != "" {
			list[name] = &securityGuard{file: fields["file"], old: fields["old"],
				pkgs: strings.Fields(fields["pkg"]), run: regexp.MustCompile(fields["run"])}
		}
	}
	return list
}

// testFolders returns the folders of tests and fuzz targets, by name.
func testFolders(t *testing.T) map[string][]string {
	folders := map[string][]string{}
	name := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err := filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		folder, _ := filepath.Rel(top, filepath.Dir(path))
		for _, m := range name.FindAllStringSubmatch(string(text), -1) {
			folders[m[1]] = append(folders[m[1]], "./"+folder)
		}
		return err
	})
	if err != nil || len(folders) < 1000 {
		t.Fatal(len(folders), err)
	}
	return folders
}

// TestThreats: each row of the table of threats names tests that there are, and guards. Each guard
// has its place in the source once, and a row that names it beside a test that fails without it.
func TestThreats(t *testing.T) {
	list, folders := guards(t), testFolders(t)
	_, text, _ := strings.Cut(read(t, "docs/security.md"), "| guards |\n|---|---|---|---|---|\n")
	text, _, _ = strings.Cut(text, "\n\n")
	for row := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(row), "|"), "|")
		if len(cells) != 5 {
			t.Fatalf("%d cells in %q", len(cells), row)
		}
		who, tests := strings.TrimSpace(cells[0]), regexp.MustCompile("`(\\w+)`").
			FindAllStringSubmatch(cells[3], -1)
		for _, test := range tests {
			if folders[test[1]] == nil {
				t.Errorf("%s: no test is called %s", who, test[1])
			}
		}
		for name := range strings.SplitSeq(cells[4], ";") {
			name = strings.TrimSpace(name)
			g := list[name]
			switch {
			case name == "" && strings.Contains(cells[1], "everything"):
				continue
			case g == nil:
				t.Errorf("%s: scripts/guards does not know %q", who, name)
				continue
			}
			fails := slices.ContainsFunc(tests, func(test []string) bool {
				return g.run.MatchString(test[1]) && slices.ContainsFunc(g.pkgs, func(pkg string) bool {
					return slices.Contains(folders[test[1]], pkg)
				})
			})
			if g.row = g.row || fails; !fails {
				t.Errorf("%s: no test of the row is to fail without %q", who, name)
			}
		}
	}
	for name, g := range list {
		if source := read(t, g.file); strings.Count(source, g.old) != 1 {
			t.Errorf("%s has the place of %q %d times", g.file, name, strings.Count(source, g.old))
		}
		if !g.row {
			t.Errorf("no row of docs/security.md names %q", name)
		}
	}
	if len(list) < 45 {
		t.Errorf("only %d guards found", len(list))
	}
}
