package main

import (
	"encoding/csv"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/cli"
)

// TestCurve: the points are quantiles, as many as the samples allow.
func TestCurve(t *testing.T) {
	var h erpc.Histogram
	for i := range int64(1000) {
		h.Add(1000 * (i + 1))
	}
	list := curveOf(&h)
	if len(list) != 31 {
		t.Fatalf("%d points of 1000 samples", len(list))
	}
	for i, p := range list {
		want := 1000*p.Q + 1
		if math.Abs(p.US-want) > want*0.04 || i > 0 && p.US < list[i-1].US {
			t.Errorf("%v: want %.0f us", p, want)
		}
	}
	var none erpc.Histogram
	if list := curveOf(&none); len(list) != 1 || list[0].US != 0 {
		t.Errorf("%v of no samples", list)
	}
}

// TestPlots: the demonstration writes a drawing that is XML with all curves inside the frame, and a
// table with the same curves.
func TestPlots(t *testing.T) {
	dir := t.TempDir()
	svg, table := filepath.Join(dir, "a.svg"), filepath.Join(dir, "a.csv")
	for _, name := range []string{svg, table} {
		status, _, errOut := try(t, "demo", "--keys=1000", "--each=5ms", "--plot="+name)
		if status != cli.Done {
			t.Fatalf("%s: status %d: %s", name, status, errOut)
		}
	}
	drawn, err := os.Open(svg)
	if err != nil {
		t.Fatal(err)
	}
	defer drawn.Close()
	curves := 0
	for d := xml.NewDecoder(drawn); ; {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := tok.(xml.StartElement); ok && s.Name.Local == "path" && s.Attr[0].Value == "none" {
			curves++
			inFrame(t, s.Attr[3].Value)
		}
	}
	if curves != 3 {
		t.Errorf("%d curves", curves)
	}
	text, err := os.Open(table)
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	rows, err := csv.NewReader(text).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]int{}
	for _, r := range rows[1:] {
		names[r[0]]++
	}
	if names[rowNone] < 2 || names[rowWorkers] < 2 || names[rowLoop] < 2 {
		t.Errorf("rows of %v", names)
	}
	if status, _, _ := try(t, "demo", "--plot=x.png"); status != cli.Usage {
		t.Errorf("a name without a known end: status %d", status)
	}
}

// inFrame checks the points of a path.
func inFrame(t *testing.T, path string) {
	t.Helper()
	for _, p := range strings.FieldsFunc(path, func(r rune) bool { return r == 'M' || r == 'L' }) {
		xs, ys, _ := strings.Cut(p, " ")
		x, err1 := strconv.ParseFloat(xs, 64)
		y, err2 := strconv.ParseFloat(ys, 64)
		if err1 != nil || err2 != nil || x < plotLeft || x > plotWidth-plotRight || y < plotTop ||
			y > plotHeight-plotBottom {
			t.Errorf("point %q is not in the frame", p)
		}
	}
}
