package pages

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// read returns a document.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// source parses the files of a package, without tests.
func source(t *testing.T, dir string) (files []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(top, dir, "*.go"))
	if err != nil || len(names) == 0 {
		t.Fatal(dir, err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// rows returns the first cells of a document's tables that are code, by the heading above them.
func rows(text string) map[string]bool {
	have, heading := map[string]bool{}, ""
	for line := range strings.Lines(text) {
		if h, ok := strings.CutPrefix(line, "## "); ok {
			heading = strings.TrimSpace(h)
		}
		if cell, ok := strings.CutPrefix(line, "| `"); ok {
			name, _, _ := strings.Cut(cell, "`")
			have[heading+"."+name], have[name] = true, true
		}
	}
	return have
}

// described are the packages whose errors docs/errors.md has: those that programs use directly.
var described = []string{"erpc", "transport", "transport/udp", "transport/auto", "transport/shm",
	"transport/rawudp", "transport/rawudp/afpacket", "transport/rawudp/afxdp", "transport/ud",
	"transport/pcap", "security", "debug", "flight", "index", "index/client", "index/durable",
	"index/message", "index/snapshot",
	"kv/mica", "kv/client", "kv/server", "kv/memcached", "kv/herd/rdma", "rfp", "rfp/adaptive",
	"rfp/onesided", "cluster"}

// exportedErrors returns the names of the errors that a package declares. Those of package erpc
// stand alone, others behind their package's path.
func exportedErrors(t *testing.T, dir string) (names []string) {
	t.Helper()
	prefix := dir + "."
	if dir == "erpc" {
		prefix = ""
	}
	for _, f := range source(t, dir) {
		for _, d := range f.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || decl.Tok != token.VAR {
				continue
			}
			for _, s := range decl.Specs {
				for _, id := range s.(*ast.ValueSpec).Names {
					if strings.HasPrefix(id.Name, "Err") {
						names = append(names, prefix+id.Name)
					}
				}
			}
		}
	}
	return names
}

// TestErrors: docs/errors.md has each exported error of these packages, with a cause, and no other.
func TestErrors(t *testing.T) {
	text := read(t, "docs/errors.md")
	have, known := rows(text), map[string]bool{}
	for _, dir := range described {
		for _, name := range exportedErrors(t, dir) {
			known[name] = true
			if !have[name] {
				t.Errorf("docs/errors.md has no row for %s", name)
			}
		}
	}
	row := regexp.MustCompile("(?m)^\\| `([a-z/]+\\.)?(Err\\w+)` \\|(.*)$")
	for _, m := range row.FindAllStringSubmatch(text, -1) {
		if !known[m[1]+m[2]] {
			t.Errorf("docs/errors.md has %s, which no package has", m[1]+m[2])
		}
		cause, cure, ok := strings.Cut(m[3], "|")
		if strings.TrimSpace(cause) == "" || !ok || !strings.HasSuffix(cure, "|") {
			t.Errorf("docs/errors.md: the row of %s has no cause, or not three columns", m[1]+m[2])
		}
	}
	if len(known) < 100 {
		t.Errorf("only %d errors found", len(known))
	}
}

// structs are the sections of docs/settings.md: their packages and structs.
var structs = map[string][2]string{
	"Config": {"erpc", "Config"}, "Timing": {"erpc", "Timing"},
	"Congestion": {"erpc", "Congestion"}, "Shares": {"erpc", "Shares"}, "Pool": {"erpc", "PoolConfig"},
	"udp.Config": {"transport/udp", "Config"}, "shm.Config": {"transport/shm", "Config"},
	"auto.Config":     {"transport/auto", "Config"},
	"afpacket.Config": {"transport/rawudp/afpacket", "Config"},
	"afxdp.Config":    {"transport/rawudp/afxdp", "Config"}, "ud.Config": {"transport/ud", "Config"},
}

// fields returns the exported fields of a struct.
func fields(t *testing.T, dir, name string) (list []string) {
	t.Helper()
	for _, f := range source(t, dir) {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != name {
				return true
			}
			for _, field := range spec.Type.(*ast.StructType).Fields.List {
				for _, id := range field.Names {
					if id.IsExported() {
						list = append(list, id.Name)
					}
				}
			}
			return false
		})
	}
	return list
}

// TestSettings: docs/settings.md has each field of the structs that it describes, and no other.
func TestSettings(t *testing.T) {
	have, known := rows(read(t, "docs/settings.md")), map[string]bool{}
	for section, s := range structs {
		list := fields(t, s[0], s[1])
		if len(list) < 3 {
			t.Errorf("%s.%s has only the fields %q", s[0], s[1], list)
		}
		for _, name := range list {
			known[section+"."+name] = true
			if !have[section+"."+name] {
				t.Errorf("docs/settings.md has no row for %s of %s", name, section)
			}
		}
	}
	for name := range have {
		if strings.Contains(name, ".") && !known[name] {
			t.Errorf("docs/settings.md has %s, which the code does not", name)
		}
	}
}

// unmapped are folders whose packages need no map: tests and programs that nobody calls, examples,
// and generated code.
var unmapped = regexp.MustCompile(`^(labs|scripts|erpc/\w+test|` +
	`grpcerpc/(cmd|ecosystem|examples)|cluster/demo|internal/paperlab/simindex|` +
	`cmd/erpc/watch/browsertest|` +
	`raft-example/raft-kv)(/|$)|^raft-example$`)

// TestMaps: packages say what they own, who calls them, and what may never happen.
func TestMaps(t *testing.T) {
	var names []string
	err := filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		folder, _ := filepath.Rel(top, filepath.Dir(name))
		if err == nil && d.Name() == "doc.go" && !unmapped.MatchString(folder) {
			names = append(names, name)
		}
		return err
	})
	if err != nil || len(names) < 80 {
		t.Fatalf("%d packages, %v", len(names), err)
	}
	for _, name := range names {
		text := read(t, strings.TrimPrefix(name, top+"/"))
		for _, part := range []string{"\n// # Map\n", "\n//\towns ", "\n//\tcalled by ", "\n//\tnever "} {
			if !strings.Contains(text, part) {
				t.Errorf("%s has no %q", name, strings.TrimSpace(part))
			}
		}
	}
}

// minExamples is how many examples the exported packages have at least.
const minExamples = 25

// TestExamples: that many examples run, which means that they say what they print. Those of
// internal packages and of package main do not count.
func TestExamples(t *testing.T) {
	run := map[string]int{}
	sum := 0
	err := filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "internal" || d.Name() == "labs" || d.Name() == "cmd") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, e := range doc.Examples(file) {
			if e.Output != "" || e.EmptyOutput {
				run[filepath.Dir(name)]++
				sum++
			}
		}
		return nil
	})
	if err != nil || sum < minExamples {
		t.Errorf("%d examples, want %d: %v", sum, minExamples, err)
	}
	t.Logf("%d examples in %d packages", sum, len(run))
}
