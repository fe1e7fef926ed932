package main

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/outfile"
)

// point is one of a distribution: a share Q of all took at most US microseconds.
type point struct{ Q, US float64 }

// curve is the distribution of a latency.
type curve struct {
	name   string
	points []point
}

// curveOf takes points from a histogram, ten for each nine of a percentile, as far as it has
// samples.
func curveOf(h *erpc.Histogram) (list []point) {
	for i := 0; ; i++ {
		rest := math.Pow(10, -float64(i)/10)
		if i > 0 && rest*float64(h.Count) < 1 {
			return list
		}
		list = append(list, point{1 - rest, float64(h.Quantile(1-rest)) / float64(time.Microsecond)})
	}
}

// checkPlot reports a name, unless it is empty, that says neither what to draw.
func checkPlot(name string) error {
	if name != "" && !strings.HasSuffix(name, ".svg") && !strings.HasSuffix(name, ".csv") {
		return cli.Usagef("--plot %s: want a name that ends in .svg or .csv", name)
	}
	return nil
}

// savePlot writes curves to a file: a drawing if its name ends in .svg, a table if in .csv.
func savePlot(name string, curves []curve) (err error) {
	write := writeSVG
	if strings.HasSuffix(name, ".csv") {
		write = writeCSV
	}
	f, err := outfile.Create(name, 0o666)
	if err != nil {
		return err
	}
	err = write(f, curves)
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

func writeCSV(w io.Writer, curves []curve) error {
	if _, err := fmt.Fprintln(w, "what,percentile,us"); err != nil {
		return err
	}
	for _, c := range curves {
		for _, p := range c.points {
			if _, err := fmt.Fprintf(w, "%q,%.6g,%.3f\n", c.name, 100*p.Q, p.US); err != nil {
				return err
			}
		}
	}
	return nil
}

// The drawing, in pixels.
const (
	plotWidth, plotHeight = 720, 440
	plotLeft, plotRight   = 70, 20
	plotTop, plotBottom   = 20, 60
)

var plotColors = []string{"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e"}

// scale maps logarithms to pixels.
type scale struct{ low, high, from, to float64 }

func (s scale) at(v float64) float64 {
	return s.from + (math.Log10(v)-s.low)/(s.high-s.low)*(s.to-s.from)
}

// scales returns those of nines and of microseconds, for all curves.
func scales(curves []curve) (x, y scale) {
	least, most, nines := math.Inf(1), 0.0, 1.0
	for _, c := range curves {
		for _, p := range c.points {
			us := max(p.US, 0.01)
			least, most = min(least, us), max(most, us)
			nines = max(nines, -math.Log10(1-p.Q))
		}
	}
	if most == 0 {
		least, most = 1, 10
	}
	low, high := math.Floor(math.Log10(least)), math.Ceil(math.Log10(most))
	return scale{0, math.Ceil(nines), plotLeft, plotWidth - plotRight},
		scale{low, max(high, low+1), plotHeight - plotBottom, plotTop}
}

// writeSVG draws curves: percentiles by their nines to the right, microseconds upwards, both
// logarithmic.
func writeSVG(w io.Writer, curves []curve) error {
	x, y := scales(curves)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" `+
		`font-family="sans-serif" font-size="12">`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", plotWidth, plotHeight)
	line := func(x1, y1, x2, y2 float64) {
		fmt.Fprintf(&b, `<path d="M%.1f %.1fL%.1f %.1f" stroke="#ddd"/>`+"\n", x1, y1, x2, y2)
	}
	text := func(at, up float64, anchor, s string) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="%s">`, at, up, anchor)
		_ = xml.EscapeText(&b, []byte(s)) // a Builder takes all
		b.WriteString("</text>\n")
	}
	for n := 0.0; n <= x.high; n++ {
		at := x.at(math.Pow(10, n))
		line(at, plotTop, at, plotHeight-plotBottom)
		text(at, plotHeight-plotBottom+18, "middle", fmt.Sprintf("%.7g", 100-100*math.Pow(10, -n)))
	}
	for n := y.low; n <= y.high; n++ {
		at := y.at(math.Pow(10, n))
		line(plotLeft, at, plotWidth-plotRight, at)
		text(plotLeft-6, at+4, "end", fmt.Sprintf("%g us", math.Pow(10, n)))
	}
	text((plotLeft+plotWidth)/2, plotHeight-plotBottom+40, "middle", "percentile of GETs")
	for i, c := range curves {
		color := plotColors[i%len(plotColors)]
		fmt.Fprintf(&b, `<path fill="none" stroke="%s" stroke-width="2" d="`, color)
		for j, p := range c.points {
			fmt.Fprintf(&b, "%c%.1f %.1f", "ML"[min(j, 1)], x.at(1/(1-p.Q)), y.at(max(p.US, 0.01)))
		}
		b.WriteString("\"/>\n")
		up := float64(plotTop + 18*(i+1))
		fmt.Fprintf(&b, `<path d="M%d %.1fh24" stroke="%s" stroke-width="2"/>`+"\n",
			plotLeft+12, up-4, color)
		text(plotLeft+42, up, "start", c.name)
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}
