package report

import (
	"fmt"
	"image/color"
	"path/filepath"
	"strings"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/outfile"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

var (
	blue   = color.RGBA{0, 114, 178, 255}
	orange = color.RGBA{230, 159, 0, 255} // told apart from blue by everyone (Okabe and Ito)
)

// Plots draws, as SVG files in dir, one plot for each bench with a ratio to the raw
// transport, and one of the peers. It returns the files' names.
func (r *Results) Plots(dir string) (files []string, err error) {
	for _, bench := range []string{"latency", "rate", "bandwidth"} {
		var list []Figure
		for _, f := range r.Figures {
			if f.Bench == bench && f.Ratio > 0 {
				list = append(list, f)
			}
		}
		if len(list) == 0 {
			continue
		}
		p, err := ratioPlot(bench, list)
		if err != nil {
			return files, err
		}
		file := filepath.Join(dir, "ratio-"+bench+".svg")
		if err := save(file, 16*vg.Centimeter, [][]*plot.Plot{{p}}); err != nil {
			return files, err
		}
		files = append(files, file)
	}
	if r.Peers == nil || len(r.Peers.Rows) == 0 {
		return files, nil
	}
	rate, err := dots(r.Peers, "RPC/s", fmt.Sprintf("%s, %d in flight", cli.BytesText(r.Peers.Size),
		r.Peers.Window), func(row Row) Stat { return row.Rps })
	if err != nil {
		return files, err
	}
	latency, err := dots(r.Peers, "p50, us", cli.BytesText(r.Peers.Size)+", 1 in flight",
		func(row Row) Stat { return row.P50 })
	if err != nil {
		return files, err
	}
	file := filepath.Join(dir, "peers.svg")
	if err := save(file, 26*vg.Centimeter, [][]*plot.Plot{{rate, latency}}); err != nil {
		return files, err
	}
	return append(files, file), nil
}

// ratioPlot has a bar for each figure.
func ratioPlot(bench string, list []Figure) (*plot.Plot, error) {
	p := newPlot()
	p.Title.Text = "erpc bench " + bench + ", compared with the raw transport"
	p.Y.Label.Text = "ratio to raw (higher is better)"
	if bench == "latency" {
		p.Y.Label.Text = "p50 by raw p50 (lower is better)"
	}
	var values plotter.Values
	var names []string
	var labels plotter.XYLabels
	for i, f := range list {
		values = append(values, f.Ratio)
		names = append(names, f.Transport+"\n"+f.Name())
		labels.XYs = append(labels.XYs, plotter.XY{X: float64(i), Y: f.Ratio})
		labels.Labels = append(labels.Labels, factor(f.Ratio))
	}
	bars, err := plotter.NewBarChart(values, 2*vg.Centimeter)
	if err != nil {
		return nil, err
	}
	bars.Color, bars.LineStyle.Width = blue, 0
	one := plotter.NewFunction(func(float64) float64 { return 1 })
	one.Color, one.Width, one.Dashes = orange, vg.Points(1.5), []vg.Length{vg.Points(5), vg.Points(3)}
	p.Add(bars, one)
	if err := addLabels(p, labels, 0, 4); err != nil {
		return nil, err
	}
	p.NominalX(names...)
	p.X.Min, p.X.Max = -0.7, float64(len(list))-0.3
	p.Y.Min, p.Y.Max = 0, max(1.1, 1.15*p.Y.Max)
	return p, nil
}

// dots has a dot for each peer on a logarithmic axis, with the range of the rounds.
func dots(c *Comparison, y, title string, f func(Row) Stat) (*plot.Plot, error) {
	p := newPlot()
	p.Title.Text, p.Y.Label.Text = title, y
	var (
		points plotter.XYs
		errs   plotter.YErrors
		names  []string
		labels plotter.XYLabels
	)
	for _, row := range c.Rows {
		s := f(row)
		names = append(names, nameBreaks.Replace(row.Peer))
		if s.Min <= 0 {
			continue // a logarithm has no place for it
		}
		at := plotter.XY{X: float64(len(names) - 1), Y: s.Median}
		points = append(points, at)
		errs = append(errs, struct{ Low, High float64 }{s.Median - s.Min, s.Max - s.Median})
		labels.XYs = append(labels.XYs, at)
		labels.Labels = append(labels.Labels, cli.CountText(s.Median))
	}
	if len(points) > 0 {
		scatter, err := plotter.NewScatter(points)
		if err != nil {
			return nil, err
		}
		scatter.Color, scatter.Shape, scatter.Radius = blue, draw.CircleGlyph{}, vg.Points(3.5)
		bars, err := plotter.NewYErrorBars(struct {
			plotter.XYer
			plotter.YErrorer
		}{points, errs})
		if err != nil {
			return nil, err
		}
		bars.Color = blue
		p.Add(bars, scatter)
		if err := addLabels(p, labels, 7, -3); err != nil {
			return nil, err
		}
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{}
		p.Y.Min, p.Y.Max = p.Y.Min/1.5, p.Y.Max*1.5
	}
	p.NominalX(names...)
	p.X.Min, p.X.Max = -0.5, float64(len(names))-0.2
	return p, nil
}

// nameBreaks breaks peers' names into lines.
var nameBreaks = strings.NewReplacer(" ", "\n", "-", "-\n", "/", "/\n")

// decades are logarithmic ticks whose labels read like the figures in the tables.
type decades struct{}

// Ticks implements plot.Ticker.
func (decades) Ticks(lo, hi float64) []plot.Tick {
	ticks := plot.LogTicks{Prec: -1}.Ticks(lo, hi)
	for i := range ticks {
		if !ticks[i].IsMinor() {
			ticks[i].Label = strings.NewReplacer(".00", "", ".0", "").Replace(cli.CountText(ticks[i].Value))
		}
	}
	return ticks
}

// newPlot has a grid and fonts without serifs.
func newPlot() *plot.Plot {
	p := plot.New()
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	p.Add(grid)
	for _, style := range []*text.Style{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle,
		&p.X.Tick.Label, &p.Y.Tick.Label} {
		style.Font.Variant = "Sans"
	}
	p.Title.TextStyle.Font.Size = vg.Points(13)
	p.Title.Padding = 4 * vg.Millimeter
	return p
}

func addLabels(p *plot.Plot, labels plotter.XYLabels, x, y vg.Length) error {
	l, err := plotter.NewLabels(labels)
	if err != nil {
		return err
	}
	l.Offset = vg.Point{X: x, Y: y}
	for i := range l.TextStyle {
		l.TextStyle[i].Font.Variant = "Sans"
		if x == 0 {
			l.TextStyle[i].XAlign = draw.XCenter
		}
	}
	p.Add(l)
	return nil
}

// save draws plots side by side into one SVG file.
func save(file string, width vg.Length, plots [][]*plot.Plot) error {
	const height = 10 * vg.Centimeter
	c := vgsvg.New(width, height)
	tiles := draw.Tiles{Rows: 1, Cols: len(plots[0]), PadX: vg.Centimeter,
		PadTop: 2 * vg.Millimeter, PadBottom: 2 * vg.Millimeter, PadLeft: 2 * vg.Millimeter,
		PadRight: 2 * vg.Millimeter}
	canvases := plot.Align(plots, tiles, draw.New(c))
	for i, p := range plots[0] {
		p.Draw(canvases[0][i])
	}
	w, err := outfile.Create(file, 0o666)
	if err != nil {
		return err
	}
	if _, err = c.WriteTo(w); err != nil {
		_ = w.Close()
		return err
	}
	return w.Close()
}
