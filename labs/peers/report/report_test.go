package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestStatOf(t *testing.T) {
	for _, tt := range []struct {
		in   []float64
		want Stat
	}{
		{nil, Stat{}},
		{[]float64{3}, Stat{3, 3, 3}},
		{[]float64{4, 1}, Stat{2.5, 1, 4}},
		{[]float64{9, 1, 2}, Stat{2, 1, 9}},
	} {
		if got := StatOf(tt.in); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.in, got, tt.want)
		}
	}
}

// some runs: two rounds of a peer that is better pinned at rate and unpinned at
// latency, and of the base.
func someRuns() (runs []Run) {
	add := func(peer, cores string, round int, rps, p50 float64) {
		runs = append(runs,
			Run{Bench: "rate", Peer: peer, Cores: cores, Round: round, Rps: rps, P50: 999, P99: 999,
				CPU: 5000, Transport: "tcp"},
			Run{Bench: "latency", Peer: peer, Cores: cores, Round: round, Rps: 1, P50: p50, P99: 2 * p50,
				Transport: "tcp"})
	}
	for round := 1; round <= 2; round++ {
		r := float64(round)
		add("fast", Pinned, round, 400*r, 30)
		add("fast", Unpinned, round, 300*r, 20)
		add("base", Unpinned, round, 100*r*r, 50)
	}
	return runs
}

func TestCompare(t *testing.T) {
	c := Compare(Comparison{Base: "base", Window: 60, Size: 32, RespSize: 32, Rounds: 2}, someRuns())
	if len(c.Rows) != 2 || len(c.Runs) != 12 || c.Bench != "peers" {
		t.Fatalf("%d rows, %d runs", len(c.Rows), len(c.Runs))
	}
	want := Row{Peer: "fast", Transport: "tcp", RateCores: Pinned, Rps: Stat{600, 400, 800},
		Ratio: &Stat{3, 2, 4},
		CPU:   Stat{5000, 5000, 5000}, LatencyCores: Unpinned, P50: Stat{20, 20, 20},
		P99: Stat{40, 40, 40}}
	if !reflect.DeepEqual(c.Rows[0], want) {
		t.Errorf("got %+v\nwant %+v", c.Rows[0], want)
	}
	if r := c.Rows[1].Ratio; *r != (Stat{1, 1, 1}) {
		t.Errorf("the base's ratio to itself is %v", r)
	}
}

func TestCompareIncomplete(t *testing.T) {
	runs := someRuns()
	// Only rates of the base: no row for it, but ratios to it.
	c := Compare(Comparison{Base: "base"}, runs[:5])
	if len(c.Rows) != 1 || *c.Rows[0].Ratio != (Stat{4, 4, 4}) {
		t.Errorf("%+v", c.Rows)
	}
	c = Compare(Comparison{Base: "nobody"}, runs)
	if len(c.Rows) != 2 || c.Rows[0].Ratio != nil {
		t.Errorf("ratios to nobody: %+v", c.Rows)
	}
}

func TestText(t *testing.T) {
	c := Compare(Comparison{Base: "base", Window: 60, Size: 1 << 20, RespSize: 32, Rounds: 2,
		Duration: .5, Interrupted: true}, someRuns())
	var b bytes.Buffer
	if err := c.Text(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"requests 1 MiB, responses 32 B", "2 rounds of 0.5 s", "interrupted",
		"60 in flight", "times base",
		"600.0 (400.0 .. 800.0)", "3.00 (2.00 .. 4.00)", "5.0 us", "20.0 us", "unpinned"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "Gbit") {
		t.Error("a column without figures")
	}
}

func TestSetGbps(t *testing.T) {
	for _, tt := range []struct {
		r    Run
		want float64
	}{
		{Run{Bench: "rate", Size: 32, RespSize: 32, Rps: 1e6}, 0},
		{Run{Bench: "rate", Size: 1e6, RespSize: 32, Rps: 1000}, 8},
		{Run{Bench: "rate", Size: 32, RespSize: 1e6, Rps: 1000}, 8},
		{Run{Bench: "latency", Size: 1e6, Rps: 1000}, 0},
	} {
		if tt.r.SetGbps(); tt.r.Gbps != tt.want {
			t.Errorf("%+v, want %v", tt.r, tt.want)
		}
	}
}

func TestAddMachine(t *testing.T) {
	m := Machine{CPU: "a cpu", Cores: 2, OS: "linux", Arch: "amd64", Go: "go", Time: "now"}
	for _, in := range []string{`{"bench":"rate","near":true}` + "\n", `{}`,
		`{"machine":{"cpu":"old"},"bench":"rate"}`} {
		out, err := AddMachine([]byte(in), m)
		if err != nil {
			t.Fatal(err)
		}
		var got, want map[string]any
		if err := errors.Join(json.Unmarshal(out, &got), json.Unmarshal([]byte(in), &want)); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		if cpu := got["machine"].(map[string]any)["cpu"]; cpu != "a cpu" {
			t.Errorf("%s: cpu %v", out, cpu)
		}
		delete(got, "machine")
		delete(want, "machine")
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s became %s", in, out)
		}
	}
	for _, in := range []string{"", "null and more", `[1]`, `"text"`} {
		if out, err := AddMachine([]byte(in), m); err == nil {
			t.Errorf("%q: no error, %s", in, out)
		}
	}
}

func TestCPUModel(t *testing.T) {
	for in, want := range map[string]string{
		"processor\t: 0\nmodel name\t: Fast 1\n\nmodel name\t: Fast 1\n": "Fast 1",
		"CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n":                   "implementer 0x41, part 0xd0c",
		"": "unknown",
	} {
		if got := cpuModel(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if m := ThisMachine(); m.CPU == "" || m.Cores < 1 || m.OS == "" || m.Go == "" || m.Time == "" {
		t.Errorf("%+v", m)
	}
}

// folder writes files as bin/erpc and Write do.
func folder(t *testing.T) string {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"rate-udp.json": `{"bench":"rate","transport":"udp","size":32,"resp_size":32,"window":60,
			"threads":1,"rps":2e6,"p50_us":29,"p99_us":54,"raw_rps":4e6,"ratio_to_raw":0.5,
			"cpu_ns_per_rpc":970,"machine":{"cpu":"a cpu","cores":2}}`,
		"latency-udp.json": `{"bench":"latency","transport":"udp","size":32,"resp_size":32,"window":1,
			"threads":1,"p50_us":8.5,"p99_us":15,"raw_p50_us":7,"ratio_to_raw":1.21}`,
		"latency-shm.json": `{"bench":"latency","transport":"shm","size":32,"resp_size":32,"window":1,
			"threads":1,"p50_us":0.5,"p99_us":1}`,
		"bandwidth-udp.json": `{"bench":"bandwidth","transport":"udp","size":8388608,"resp_size":32,
			"gbps":30.5,"raw_gbps":40,"ratio_to_raw":0.76}`,
		"bandwidth-reverse-udp.json": `{"bench":"bandwidth","transport":"udp","size":32,
			"resp_size":8388608,"gbps":31.5,"raw_gbps":40,"ratio_to_raw":0.79}`,
		"other.json": `{"no":"bench"}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := Compare(Comparison{Base: "base", Window: 60, Size: 32, RespSize: 32, Rounds: 2}, someRuns())
	if err := Write(filepath.Join(dir, PeersFile), c); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestMarkdown(t *testing.T) {
	r, err := Read(folder(t))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.Markdown(&b); err != nil {
		t.Fatal(err)
	}
	var rows []string
	for line := range strings.Lines(b.String()) {
		if strings.HasPrefix(line, "|") {
			rows = append(rows, strings.Join(strings.Fields(line), " "))
		}
	}
	want := []string{
		"| what | transport | erpc | raw transport | ratio | CPU per RPC |", "",
		"| 32 B RPC, 1 in flight | shm | p50 0.5 us, p99 1.0 us | - | - | - |",
		"| 32 B RPC, 1 in flight | udp | p50 8.5 us, p99 15.0 us | p50 7.0 us | 1.21 | - |",
		"| 32 B RPC, 60 in flight | udp | 2.00 M/s, p50 29.0 us, p99 54.0 us | 4.00 M/s echoed | 0.50 " +
			"| 1.0 us |",
		"| 8 MiB requests | udp | 30.5 Gbit/s | 40.0 Gbit/s | 0.76 | - |",
		"| 8 MiB responses | udp | 31.5 Gbit/s | 40.0 Gbit/s | 0.79 | - |",
		"| peer | 60 in flight, RPC/s | times base | CPU per RPC | cores | 1 in flight, p50 | p99 " +
			"| cores |", "",
		"| fast | 600.0 (400.0 .. 800.0) | 3.00 (2.00 .. 4.00) | 5.0 us | pinned | 20.0 us | 40.0 us | " +
			"unpinned |",
		"| base | 250.0 (100.0 .. 400.0) | 1.00 | 5.0 us | unpinned | 50.0 us | 100.0 us | unpinned |",
	}
	if len(rows) != len(want) {
		t.Fatalf("%d rows, want %d:\n%s", len(rows), len(want), b.String())
	}
	for i := range want {
		if want[i] != "" && rows[i] != want[i] {
			t.Errorf("row %d:\n%s\nwant\n%s", i, rows[i], want[i])
		}
	}
}

func TestPlots(t *testing.T) {
	dir := folder(t)
	r, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	files, err := r.Plots(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"ratio-latency.svg":   {"1.21", "udp", "lower is better"},
		"ratio-rate.svg":      {"0.50", "higher is better"},
		"ratio-bandwidth.svg": {"0.76", "0.79", "8 MiB responses"},
		"peers.svg":           {"fast", "base", "600.0", "50.0", "60 in flight"},
	}
	if len(files) != len(want) {
		t.Errorf("files: %q", files)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d := xml.NewDecoder(bytes.NewReader(b))
		for err == nil {
			_, err = d.Token()
		}
		if err != io.EOF {
			t.Errorf("%s is no XML: %v", file, err)
		}
		for _, text := range want[filepath.Base(file)] {
			if !bytes.Contains(b, []byte(text)) {
				t.Errorf("%s: no %q in it", filepath.Base(file), text)
			}
		}
	}
}

func TestReadErrors(t *testing.T) {
	if _, err := Read(t.TempDir()); !errors.Is(err, errEmpty) {
		t.Errorf("empty folder: %v", err)
	}
	for _, name := range []string{"rate-udp.json", PeersFile} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("broken %s: %v", name, err)
		}
	}
	if files, err := (&Results{}).Plots(t.TempDir()); err != nil || len(files) != 0 {
		t.Errorf("plots of nothing: %q, %v", files, err)
	}
}

// TestRawTable: medians over the runs, and what was not measured.
func TestRawTable(t *testing.T) {
	var b bytes.Buffer
	err := RawTable(&b, []Figure{
		{Bench: "latency", Transport: "udp", P50: 8, RawP50: 6, Ratio: 1.3, Cores: 300},
		{Bench: "latency", Transport: "udp", P50: 7, RawP50: 5, Ratio: 1.4, Cores: 50},
		{Bench: "latency", Transport: "udp", P50: 9, RawP50: 7, Ratio: 1.1, Cores: 50},
		{Bench: "rate", Transport: "afxdp", Rps: 1.5e6, RawRps: 2e6, Ratio: 0.75},
		{Bench: "bandwidth", Transport: "afxdp", Gbps: 8, RawGbps: 10, Ratio: 0.8},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| udp | 8.00 us | 6.00 us | 1.30 | - | - | - | - | - | - | 2 of 3 |\n",
		"| afxdp | - | - | - | 1.50 M/s | 2.00 M/s | 0.75 | 8.0 Gbit/s | 10.0 Gbit/s | 0.80 | 0 of 2 |\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
}
