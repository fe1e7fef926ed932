package paperlab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image/png"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/userspace-rpc/erpc/internal/chart"
	"github.com/userspace-rpc/erpc/internal/paperlab/simlab"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/cli/clitest"
)

// erpcSim is erpc with the subcommand sim alone.
var erpcSim clitest.Command = func(e *cli.Env, args []string) int {
	app := cli.App{Name: "erpc", Options: []kong.Option{Vars}}
	var c struct {
		Sim Cmds `cmd:""`
	}
	return app.Run(e, &c, args, func(e *cli.Env, parsed *kong.Context) error { return parsed.Run(e) })
}

func TestSimWrongUsage(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none", "x.svg")
	cases := map[string]string{
		"sim":                       "expected one of",
		"sim incast --bogus":        "unknown flag --bogus",
		"sim incast --degree x":     "--degree \"x\"",
		"sim incast --degree 0":     "--degree \"0\"",
		"sim incast --degree 20,,5": "--degree",
		"sim incast --cc maybe":     "--cc \"maybe\"",
		"sim incast --algorithm reno": "--algorithm \"reno\": want one of " +
			"timely, dcqcn, swift, cubic",
		"sim incast --size 10":      "--size 10",
		"sim incast --size 9000000": "--size 9000000",
		"sim incast --credits 0":    "--credits 0",
		"sim incast --warmup=-1s":   "--warmup -1s",
		"sim incast --duration 1h":  "--duration 1h0m0s",
		"sim incast --seed=-1":      "--seed",
		"sim incast --plot x.gif": "--plot \"x.gif\": want a file that ends in " +
			".svg or .png",
		"sim incast --plot " + missing:                 "there is no folder",
		"sim scale --nodes 4 --peers 4":                "--peers 4",
		"sim paths --paths 1":                          "--paths 1",
		"sim paths --rivals 65":                        "--rivals 65",
		"sim loss --rates 2":                           "--rates \"2\"",
		"sim loss --rates -1":                          "--rates",
		"sim loss --rates NaN":                         "--rates \"NaN\"",
		"sim loss --algorithm dcqcn":                   "--algorithm \"dcqcn\": want one of timely",
		"sim loss --seeds 0":                           "--seeds 0",
		"sim scale --nodes 1":                          "--nodes 1",
		"sim scale --threads 99":                       "--threads \"99\"",
		"sim scale --window 0":                         "--window 0",
		"sim scale --batch 61":                         "--batch 61: must be 1 to 60",
		"sim scale --size 3":                           "--size 3",
		"sim scale --duration 1us --threads 1":         "--duration 1µs",
		"sim workload --workload W1":                   "--workload \"W1\": want one of W2, W3, W4, W5",
		"sim workload --algorithm swift,reno":          "--algorithm \"reno\": want one of timely",
		"sim workload --load 1":                        "--load 1",
		"sim workload --nodes 1":                       "--nodes 1",
		"sim workload --credits=-1":                    "--credits -1",
		"sim waiting --cores 1":                        "--cores 1: must be 2 to 1024",
		"sim waiting --conns 0":                        "--conns \"0\"",
		"sim scale --threads 1 --algorithm off --json": "--algorithm \"off\"",
	}
	for _, line := range clitest.Some(4, slices.Sorted(maps.Keys(cases))...) {
		erpcSim.Misused(t, "erpc", line, cases[line])
	}
}

func TestSimHelp(t *testing.T) {
	for _, sub := range []string{"sim incast", "sim loss", "sim scale", "sim workload",
		"sim waiting"} {
		status, out, _ := erpcSim.Line(t, sub+" --help")
		if status != cli.Done || !strings.Contains(out, "Examples:") ||
			!strings.Contains(out, "erpc "+sub) {
			t.Errorf("erpc %s --help: status %d, out %q", sub, status, out)
		}
	}
}

// Quick runs of each experiment.
const (
	quickIncast = "sim incast --degree 2,20 --size 1048576 --warmup 1ms --duration 3ms " +
		"--no-fairness --seed 7"
	quickLoss     = "sim loss --rates 1e-3 --seeds 1 --warmup 0s --duration 10ms --seed 7"
	quickScale    = "sim scale --nodes 4 --threads 1,2 --warmup 50us --duration 100us --seed 7"
	quickWorkload = "sim workload --workload W4 --algorithm swift,none --load 0.5 --nodes 4 " +
		"--duration 2ms --seed 7"
)

// TestSimJSON: one JSON object, the same for the same seed, with and without a plot.
func TestSimJSON(t *testing.T) {
	for line, into := range map[string]any{quickIncast: &simlab.IncastResult{},
		quickLoss: &simlab.LossResult{}, quickScale: &simlab.ScaleResult{},
		quickWorkload: &simlab.WorkloadResult{}} {
		if testing.Short() && line == quickIncast {
			continue // takes long under the race detector; TestSimTables runs it
		}
		status, out, errOut := erpcSim.Line(t, line+" --json")
		if status != cli.Done {
			t.Fatalf("%s: status %d, err %q", line, status, errOut)
		}
		clitest.DecodeOne(t, out, into)
		if !strings.Contains(out, `"seed":7`) || strings.Contains(out, "interrupted") {
			t.Errorf("%s: %s", line, out)
		}
		file := filepath.Join(t.TempDir(), "x.png")
		if status, again, errOut := erpcSim.Line(t, line+" --json --plot "+file); status != cli.Done ||
			again != out {
			t.Errorf("%s: status %d, err %q\nfirst %s\nagain %s", line, status, errOut, out, again)
		}
		checkPNG(t, file)
	}
}

// TestSimTables: seed, the paper's figures and every row are there.
func TestSimTables(t *testing.T) {
	for line, wants := range map[string][]string{
		quickIncast: {"Seed 7", "warm-up of 1ms", "2 ", "20 ", "timely against none",
			"5.2x", "21.8 Gbit/s", "204 us"},
		quickIncast + " --reverse":                       {"are asked for responses of 1 MiB"},
		quickIncast + " --cc on --background --degree 3": {"Background RPCs", "incast of 3, cc timely"},
		quickLoss:  {"seeds from 7 on", "0.001", "75 Gbit/s", "2.5 Gbit/s"},
		quickScale: {"Seed 7", "4 nodes", "Mrps", "28 "},
		quickWorkload: {"workload W4 at a load of 50 %: 4 nodes", "Seed 7", "252 ... 327", "swift p50",
			"none p50", "Homa p50", "1.9       2.5"},
		strings.Replace(quickIncast, "--no-fairness", "", 1) + " --degree 2": {"Jain index of 20 flows",
			"second flow that starts 20ms after"},
	} {
		if testing.Short() && !strings.Contains(line, "--no-fairness") {
			continue // takes long under the race detector
		}
		status, out, errOut := erpcSim.Line(t, line)
		if status != cli.Done {
			t.Fatalf("%s: status %d, err %q", line, status, errOut)
		}
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in\n%s", line, want, out)
			}
		}
	}
}

func checkPNG(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	colours := map[string]bool{}
	b := img.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y += 2 {
		for x := b.Min.X; x < b.Max.X; x++ {
			r, g, b, _ := img.At(x, y).RGBA()
			colours[fmt.Sprint(r>>8, g>>8, b>>8)] = true
		}
	}
	if b.Dx() < 400 || !colours["255 255 255"] || !colours["0 114 178"] {
		t.Errorf("%s: %v with %d colours, but not those of the paper and the first line", file, b,
			len(colours))
	}
}

// TestCharts: charts of all shapes are drawn, with their lines' names and the paper's.
func TestCharts(t *testing.T) {
	dir := t.TempDir()
	incast := incastChart(&simlab.IncastResult{Algorithm: "timely", Rows: []simlab.IncastRow{
		{Degree: 20, CC: "timely", P50: 40, P99: 70,
			Paper: &simlab.Table5{P50: 39, P99: 67}}, {Degree: 20, CC: "none", P50: 200, P99: 210}}})
	loss := lossChart(&simlab.LossResult{Rows: []simlab.LossRow{{Rate: 0, Gbps: 75, Paper: 75},
		{Rate: 1e-5, Gbps: 50}, {Rate: 1e-3, Gbps: 2, Paper: 2.5}}})
	scale := scaleChart(
		&simlab.ScaleResult{Rows: []simlab.ScaleRow{{Threads: 1, P50: 12, P99: 20, P999: 30}}})
	slow := workloadChart(&simlab.WorkloadResult{Rows: []simlab.WorkloadRow{{CC: "swift",
		Sizes: []simlab.SizeRow{{Most: 100, Slowdown: simlab.Slowdown{P50: 2, P99: 5},
			Homa: &simlab.Slowdown{P50: 1, P99: 3}}}}}})
	odd := chart.Chart{Title: "<a & b>", Series: []chart.Series{{Name: "nothing"},
		{Name: "odd", Points: nil}, {Name: "one"}}}
	odd.Series[2].Add(math.Inf(1), 1)
	odd.Series[2].Add(0, 0)
	for name, c := range map[string]struct {
		chart.Chart
		with, without []string
	}{
		"incast": {incast, []string{"timely p50", "no cc p99", "paper: timely p50"},
			[]string{"paper: no cc p50"}},
		"loss":  {loss, []string{"erpc", "paper", "probability of loss"}, nil},
		"scale": {scale, []string{"p50", "p99.9", "threads per node: 1"}, []string{"p99.99"}},
		"slow":  {slow, []string{"swift p99", "Homa p99"}, nil},
		"odd":   {odd, []string{"<a & b>", "one"}, []string{"nothing", "odd"}},
	} {
		file := filepath.Join(dir, name+".SVG")
		if err := c.Save(file); err != nil {
			t.Fatal(name, err)
		}
		all := strings.Join(clitest.Texts(t, file), "\n") + "\n"
		for _, want := range c.with {
			if !strings.Contains(all, want+"\n") {
				t.Errorf("%s: no %q in %q", name, want, all)
			}
		}
		for _, not := range c.without {
			if strings.Contains(all, not+"\n") {
				t.Errorf("%s: %q in %q", name, not, all)
			}
		}
	}
	empty := lossChart(&simlab.LossResult{Rows: []simlab.LossRow{{Rate: 0, Gbps: 75}}})
	if err := empty.Save(filepath.Join(dir, "empty.svg")); !errors.Is(err, chart.ErrNothingToDraw) {
		t.Errorf("a chart of nothing: %v", err)
	}
	if err := incast.Save(filepath.Join(dir, "none", "x.png")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file in no folder: %v", err)
	}
}

// TestSimInterrupted: Ctrl-C before anything is an error, later it shows what there is.
func TestSimInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, line := range []string{quickIncast, quickLoss, quickScale, quickWorkload} {
		var out, errOut bytes.Buffer
		status := erpcSim(&cli.Env{Ctx: ctx, Out: &out, Err: &errOut}, strings.Fields(line))
		if status != cli.Failed || out.Len() != 0 ||
			!clitest.OneLine("erpc", errOut.String(), "interrupted before anything") {
			t.Errorf("%s: status %d, out %q, err %q", line, status, out.String(), errOut.String())
		}
	}
	cut := simlab.LossResult{Sim: "loss", Rows: []simlab.LossRow{{Gbps: 75}}, Interrupted: true}
	for _, asJSON := range []bool{true, false} {
		var out bytes.Buffer
		f := simFlags{JSON: asJSON, GC: 100}
		e := &cli.Env{Ctx: ctx, Out: &out, Err: io.Discard}
		err := f.run(e, func(simlab.Progress) (outcome, error) {
			return outcome{&cut, len(cut.Rows), cut.Interrupted, func(w io.Writer) { printLoss(w, &cut) },
				func() chart.Chart { return lossChart(&cut) }}, nil
		})
		if err != nil || !strings.Contains(out.String(), "interrupted") ||
			asJSON != json.Valid(out.Bytes()) {
			t.Errorf("JSON %v: %v, %q", asJSON, err, out.String())
		}
	}
}

// TestProgressIsLate: nothing is said in the first two seconds, then now and then.
func TestProgressIsLate(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&cli.Env{Err: &out})
	p.tell("early", 0)
	p.begun = p.begun.Add(-progressEvery)
	p.last = p.last.Add(-progressEvery)
	p.tell("late", 0.5)
	p.tell("at once again", 0.6)
	if out.String() != "  2 s  late, 50 %\n" {
		t.Errorf("%q", out.String())
	}
}
