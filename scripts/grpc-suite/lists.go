package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// lists have for each test that may fail the list that it is of.
type lists map[string]string

// listFiles are the lists, each line of which is a test's name and the reason.
var listFiles = []string{"http2.txt", "internal.txt", "open.txt", upstreamFile}

// upstreamFile is the list of tests that fail with grpc-go too, some of them by the time of day.
const upstreamFile = "upstream.txt"

// readLists reads the lists of a folder.
func readLists(dir string) (lists, error) {
	all := make(lists)
	for _, file := range listFiles {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			name, reason, _ := strings.Cut(line, " ")
			if strings.TrimSpace(reason) == "" {
				return nil, fmt.Errorf("%s: %s has no reason", file, name)
			}
			if other, ok := all[name]; ok {
				return nil, fmt.Errorf("%s is in %s and in %s", name, other, file)
			}
			all[name] = file
		}
	}
	return all, nil
}

// sharedPrefix begins the names of tests that may fail where clients use shared memory, and only
// there.
const sharedPrefix = "shm:"

// over returns the lists for what servers listen on.
func (l lists) over(net string) lists {
	here := make(lists)
	for name, of := range l {
		if rest, ok := strings.CutPrefix(name, sharedPrefix); !ok || net == "shm" {
			here[rest] = of
		}
	}
	return here
}

// judge compares results with the lists, prints what differs, and returns the exit status.
func (l lists) judge(all []result) (status int) {
	var passed, listed int
	for _, r := range all {
		switch of, ok := l[r.name]; {
		case r.failed && ok:
			listed++
		case r.failed:
			fmt.Printf("FAIL  %s  %s\n", r.name, r.first)
			status = 1
		case ok && of != upstreamFile:
			fmt.Printf("PASS  %s, which is in %s: take it out\n", r.name, of)
			status = 1
		default:
			passed++
		}
	}
	fmt.Printf("%d tests: %d passed, %d of the lists failed\n", len(all), passed, listed)
	return status
}
