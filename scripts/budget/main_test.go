package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestReport(t *testing.T) {
	budgets, err := parseTable("# package seconds\nerpc 100\nwire 5\n")
	if err != nil {
		t.Fatal(err)
	}
	text := "[.] go test\nok  \t" + module + "erpc\t99.5s\nok  \t" + module + "wire\t(cached)\n" +
		"FAIL\t" + module + "session\t21.0s\n?   \t" + module + "transport\t[no test files]\n"
	list := parse(strings.NewReader(text), budgets)
	if len(list) != 3 || list[0].time != 99500*time.Millisecond || !list[1].cached {
		t.Fatalf("%+v", list)
	}
	var out strings.Builder
	report(list, &out)
	for _, want := range []string{"99.5 s of 100  erpc\n", "21.0 s of  20  session  beyond",
		"3 packages, 120 s of tests, 1 from the cache, 1 beyond their budget"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if _, err := parseTable("erpc soon\n"); err == nil {
		t.Error("a bad row passes")
	}
}

// TestTimes: budgets are multiplied.
func TestTimes(t *testing.T) {
	name := filepath.Join(t.TempDir(), "root.log")
	text := "ok  \t" + module + "nowhere\t30.0s\n" // the default is 20 s
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for times, want := range map[float64]string{1: "1 beyond", 2: "0 beyond", 1.4: "1 beyond"} {
		var out strings.Builder
		if err := run([]string{name}, times, &out); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%v times: %v, no %q in\n%s", times, err, want, out.String())
		}
	}
}
