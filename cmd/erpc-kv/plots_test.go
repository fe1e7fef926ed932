package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/kit/cli"
)

// TestPlots: both drawings are there, and are XML with the names of their lines.
func TestPlots(t *testing.T) {
	dir := t.TempDir()
	args := []string{"plots", "--out=" + dir, "--keys=500", "--each=10ms", "--json"}
	status, out, errOut := try(t, args...)
	var r plotsResult
	if err := json.Unmarshal([]byte(out), &r); status != cli.Done || err != nil {
		t.Fatalf("status %d, %v: %s", status, err, errOut)
	}
	if len(r.Sizes) != len(sizes) || len(r.Loads) == 0 {
		t.Fatalf("%d sizes, %d loads: %s", len(r.Sizes), len(r.Loads), errOut)
	}
	for _, p := range r.Sizes {
		if p.Reads <= 0 || p.Mixed <= 0 {
			t.Errorf("%+v", p)
		}
	}
	files := map[string]string{"value-size.svg": "95 % GETs", "latency-load.svg": "p99"}
	for file, want := range files {
		b, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		d := xml.NewDecoder(strings.NewReader(string(b)))
		for err == nil {
			_, err = d.Token()
		}
		if !errors.Is(err, io.EOF) || !strings.Contains(string(b), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
}
