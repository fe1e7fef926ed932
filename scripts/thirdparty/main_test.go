package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestClassify(t *testing.T) {
	for text, want := range map[string]string{
		"Permission is hereby granted, free\nof charge ... THE SOFTWARE IS PROVIDED": "MIT",

		bsd + " ... Neither the name of":              "BSD-3-Clause",
		strings.Replace(bsd, " and ", "\n   and ", 2): "BSD-2-Clause",
		"Apache License\n  Version 2.0, January 2004": "Apache-2.0",
	} {
		if got, err := classify(text); got != want || err != nil {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
	}
	if _, err := classify("All rights reserved."); !errors.Is(err, errUnknown) {
		t.Errorf("a text without a known phrase: %v", err)
	}
}

// TestRender: a module without a license, or with one that nobody has read, is an error.
func TestRender(t *testing.T) {
	dir := t.TempDir()
	if _, err := render([]module{{"m.test/a", "v1.0.0", dir}}); err == nil {
		t.Error("a module without a license passes")
	}
	if err := os.WriteFile(filepath.Join(dir, "LICENSE"), []byte("Secret."), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := render([]module{{"m.test/a", "v1.0.0", dir}}); !errors.Is(err, errUnknown) {
		t.Errorf("an unknown license: %v", err)
	}
	isc := "ISC\nPermission to use, copy, modify, and/or distribute this software"
	if err := os.WriteFile(filepath.Join(dir, "LICENSE"), []byte(isc), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := render([]module{{"m.test/a", "v1.0.0", dir}})
	if err != nil || !strings.Contains(string(list), isc) ||
		!strings.Contains(string(list), " ISC\n") {
		t.Errorf("%v\n%s", err, list)
	}
}
