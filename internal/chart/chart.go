package chart

import (
	"bytes"
	"errors"
	"image/color"
	"math"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/userspace-rpc/erpc/kit/outfile"
)

// Chart is a picture of lines.
type Chart struct {
	Title, X, Y string
	LogX, LogY  bool
	Shares      bool // x is 1/(1-share)
	LegendLow   bool // in the lower left corner, not the upper one
	Series      []Series
}

// Series is one line of a chart.
type Series struct {
	Name   string
	Paper  bool // dashed, in the colour of the line before
	Points plotter.XYs
}

// Add adds a point.
func (s *Series) Add(x, y float64) { s.Points = append(s.Points, plotter.XY{X: x, Y: y}) }

// colours are told apart also by those who see few of them (Okabe and Ito).
var colours = []color.RGBA{{0, 114, 178, 255}, {230, 159, 0, 255}, {0, 158, 115, 255},
	{213, 94, 0, 255},
	{204, 121, 167, 255}, {86, 180, 233, 255}, {120, 120, 120, 255}, {0, 0, 0, 255}}

// ErrNothingToDraw means that no point can be shown.
var ErrNothingToDraw = errors.New("--plot: there is nothing to draw")

// Save draws the chart into a file, in the format that its name ends with.
func (c *Chart) Save(file string) error { return SavePlots(file, *c) }

// SavePlots draws charts, one below the other, into a file, in the format that its name ends with.
func SavePlots(file string, charts ...Chart) error {
	format := strings.ToLower(strings.TrimPrefix(filepath.Ext(file), "."))
	const width, height = 22 * vg.Centimeter, 14 * vg.Centimeter
	canvas, err := draw.NewFormattedCanvas(width, height*vg.Length(len(charts)), format)
	if err != nil {
		return err
	}
	tiles := draw.Tiles{Rows: len(charts), Cols: 1, PadTop: 3 * vg.Millimeter,
		PadRight: 5 * vg.Millimeter, PadY: 8 * vg.Millimeter}
	for i := range charts {
		p, err := charts[i].plot()
		if err != nil {
			return err
		}
		p.Draw(tiles.At(draw.New(canvas), 0, i))
	}
	var b bytes.Buffer
	if _, err = canvas.WriteTo(&b); err != nil {
		return err
	}
	return outfile.Write(file, b.Bytes(), 0o644)
}

// plot draws the chart. A sweep of one point comes as bars.
func (c *Chart) plot() (*plot.Plot, error) {
	if c.single() {
		return c.bars()
	}
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.Title, c.X, c.Y
	p.Add(plotter.NewGrid())
	drawn, colour := 0, -1
	for i := range c.Series {
		if !c.Series[i].Paper {
			colour++
		}
		if c.add(p, &c.Series[i], colours[max(0, colour)%len(colours)]) {
			drawn++
		}
	}
	if drawn == 0 {
		return nil, ErrNothingToDraw
	}
	scale(&p.X, c.LogX)
	scale(&p.Y, c.LogY)
	if !c.LegendLow && c.LogY {
		p.Y.Max *= 5 // room for the legend
	}
	if c.Shares {
		p.X.Tick.Marker = shareTicks{}
	}
	c.dress(p)
	return p, nil
}

// dress sets fonts and distances.
func (c *Chart) dress(p *plot.Plot) {
	for _, style := range []*text.Style{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle,
		&p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle} {
		style.Font.Variant = "Sans"
	}
	p.Title.TextStyle.Font.Size = vg.Points(13)
	p.Title.Padding = 4 * vg.Millimeter
	p.Legend.Top, p.Legend.Left = !c.LegendLow, true
	p.Legend.Padding = vg.Millimeter
	p.Legend.XOffs = 3 * vg.Millimeter
	p.Legend.YOffs = 3 * vg.Millimeter
	if p.Legend.Top {
		p.Legend.YOffs = -p.Legend.YOffs
	}
}

// add draws one line. It reports false if no point of it can be shown.
func (c *Chart) add(p *plot.Plot, s *Series, col color.RGBA) bool {
	var shown plotter.XYs
	for _, q := range s.Points {
		if (q.X > 0 || !c.LogX) && (q.Y > 0 || !c.LogY) && !math.IsInf(q.X+q.Y, 0) &&
			!math.IsNaN(q.X+q.Y) {
			shown = append(shown, q)
		}
	}
	if len(shown) == 0 {
		return false
	}
	line, points, err := plotter.NewLinePoints(shown)
	if err != nil {
		return false
	}
	line.Color, points.Color, points.Shape = col, col, draw.CircleGlyph{}
	line.Width = vg.Points(1.5)
	if s.Paper {
		line.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
		points.Shape = draw.RingGlyph{}
	}
	p.Add(line, points)
	p.Legend.Add(s.Name, line, points)
	return true
}

// scale sets an axis that has data, with some room at its ends.
func scale(a *plot.Axis, logarithmic bool) {
	if logarithmic {
		a.Min, a.Max = a.Min/1.5, a.Max*1.5
		a.Scale, a.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: 4}
		return
	}
	a.Min = min(0, a.Min)
	a.Max *= 1.05
	if a.Max <= a.Min {
		a.Max = a.Min + 1
	}
}
