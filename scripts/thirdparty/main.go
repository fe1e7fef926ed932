package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// commands are the programs of a release, systems those that they run on.
var (
	commands = []string{"./cmd/erpc", "./cmd/erpc-kv", "./cmd/erpc-index"}
	systems  = []string{"linux/amd64", "linux/arm64", "darwin/arm64", "windows/amd64"}
)

// module is one that is linked into a command.
type module struct {
	path, version, dir string
}

func main() {
	out := flag.String("out", "", "write the list to this file")
	check := flag.String("check", "", "compare the list with this file")
	flag.Parse()
	if err := run(*out, *check); err != nil {
		fmt.Fprintln(os.Stderr, "thirdparty:", err)
		os.Exit(1)
	}
}

func run(out, check string) error {
	mods, err := linked()
	if err != nil {
		return err
	}
	list, err := render(mods)
	if err != nil {
		return err
	}
	switch {
	case out != "":
		return os.WriteFile(out, list, 0o644)
	case check != "":
		have, err := os.ReadFile(check)
		if err != nil {
			return err
		}
		if !bytes.Equal(have, list) {
			return fmt.Errorf("%s is not current: run make licenses", check)
		}
		return nil
	}
	_, err = os.Stdout.Write(list)
	return err
}

// linked asks the go command which modules the commands need, on all systems together.
func linked() ([]module, error) {
	seen := map[module]bool{}
	for _, s := range systems {
		goos, goarch, _ := strings.Cut(s, "/")
		cmd := exec.Command("go", append([]string{"list", "-deps", "-f",
			"{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Version}}\t{{.Dir}}{{end}}{{end}}"},
			commands...)...)
		cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0",
			"GOWORK=off") // as a release is built
		cmd.Stderr = os.Stderr
		text, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go list for %s: %w", s, err)
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Split(strings.TrimRight(line, "\n"), "\t"); len(f) == 3 {
				seen[module{f[0], f[1], f[2]}] = true
			}
		}
	}
	var mods []module
	for m := range seen {
		mods = append(mods, m)
	}
	slices.SortFunc(mods, func(a, b module) int { return strings.Compare(a.path, b.path) })
	return mods, nil
}

// errUnknown means that a license has to be read by a person.
var errUnknown = errors.New("unknown license")

const bsd = "Redistribution and use in source and binary forms"

// phrases name a license. All of a row must be in the text; the first row that fits counts.
var phrases = []struct {
	name string
	all  []string
}{
	{"Apache-2.0", []string{"Apache License", "Version 2.0"}},
	{"MPL-2.0", []string{"Mozilla Public License", "2.0"}},
	{"BSD-3-Clause", []string{bsd, "Neither the name"}},
	{"BSD-2-Clause", []string{bsd}},
	{"MIT", []string{"Permission is hereby granted, free of charge", "THE SOFTWARE IS PROVIDED"}},
	{"ISC", []string{"Permission to use, copy, modify, and", "distribute this software"}},
	{"CC0-1.0", []string{"CC0 1.0 Universal"}},
	{"Unlicense", []string{"free and unencumbered software released into the public domain"}},
	{"OFL-1.1", []string{"SIL OPEN FONT LICENSE"}},
	{"CC-BY-4.0", []string{"Creative Commons Attribution 4.0 International"}},
	{"FTL", []string{"The FreeType Project LICENSE"}},
	{"FTL", []string{"Freetype-Go software is subject to your choice", "The FreeType License"}},
}

// classify names the license of a text.
func classify(text string) (string, error) {
	flat := strings.Join(strings.Fields(text), " ")
	for _, row := range phrases {
		if !slices.ContainsFunc(row.all, func(p string) bool { return !strings.Contains(flat, p) }) {
			return row.name, nil
		}
	}
	return "", errUnknown
}

// licenseFiles returns the license texts of a module, its root's first.
func licenseFiles(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		base := strings.ToUpper(e.Name())
		if e.Type().IsRegular() && (strings.HasPrefix(base, "LICENSE") ||
			strings.HasPrefix(base, "LICENCE") || strings.HasPrefix(base, "COPYING") ||
			strings.HasPrefix(base, "NOTICE")) {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		return nil, errors.New("no license file")
	}
	// A module that leaves a choice has the texts in a folder; FreeType's is taken.
	if chosen := filepath.Join("licenses", "ftl.txt"); exists(filepath.Join(dir, chosen)) {
		names = append(names, chosen)
	}
	return names, nil
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// rowFormat has a module, its version and its license.
const rowFormat = "%-34s %-38s %s\n"

// render writes the table and the texts.
func render(mods []module) ([]byte, error) {
	var table, texts bytes.Buffer
	table.WriteString("Modules that are linked into erpc, erpc-kv and erpc-index, " +
		"with their licenses.\nMade by \"make licenses\"; a test compares it with go.mod.\n\n")
	fmt.Fprintf(&table, rowFormat, "Go's standard library", "", "BSD-3-Clause, https://go.dev/LICENSE")
	for _, m := range mods {
		names, err := licenseFiles(m.dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.path, err)
		}
		var kinds []string
		for _, name := range names {
			text, err := os.ReadFile(filepath.Join(m.dir, name))
			if err != nil {
				return nil, err
			}
			if !strings.HasPrefix(strings.ToUpper(name), "NOTICE") {
				kind, err := classify(string(text))
				if err != nil {
					return nil, fmt.Errorf("%s, %s: %w: read it, and add its phrases", m.path, name, err)
				}
				if !slices.Contains(kinds, kind) {
					kinds = append(kinds, kind)
				}
			}
			line := strings.Repeat("=", 80)
			fmt.Fprintf(&texts, "\n%s\n%s %s, %s\n%s\n\n%s\n", line, m.path, m.version, name, line,
				strings.TrimSpace(strings.ReplaceAll(string(text), "\r", "")))
		}
		fmt.Fprintf(&table, rowFormat, m.path, m.version, strings.Join(kinds, " AND "))
	}
	return append(table.Bytes(), texts.Bytes()...), nil
}
