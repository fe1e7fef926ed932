package main

import (
	"fmt"
	"os"
	"strings"
)

// readList reads the list of files that fail: a name and the reason in each line.
func readList(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	list := map[string]string{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, reason, _ := strings.Cut(line, " ")
		if reason = strings.TrimSpace(reason); reason == "" {
			return nil, fmt.Errorf("%s: %s has no reason", path, name)
		}
		if _, twice := list[name]; twice {
			return nil, fmt.Errorf("%s: %s stands there twice", path, name)
		}
		list[name] = reason
	}
	return list, nil
}

// judge compares results with the list, prints what differs, and returns the exit status.
func judge(all []result, listed map[string]string) (status int) {
	passed, failed := 0, 0
	longest := result{}
	for _, r := range all {
		if r.took > longest.took {
			longest = r
		}
		switch _, ok := listed[r.name]; {
		case r.why != "" && ok:
			failed++
		case r.why != "":
			fmt.Printf("FAIL  %s  %s\n", r.name, r.why)
			status = 1
		case ok:
			fmt.Printf("PASS  %s, which is in listed.txt: take it out\n", r.name)
			status = 1
		default:
			passed++
		}
	}
	fmt.Printf("%d files: %d passed, %d of the list failed; %s took %.0f s\n", len(all), passed,
		failed, longest.name, longest.took.Seconds())
	return status
}
