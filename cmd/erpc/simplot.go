package main

import (
	"bytes"
	"errors"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// chart is a picture of lines.
type chart struct {
	title, x, y string
	logX, logY  bool
	shares      bool // x is 1/(1-share)
	legendLow   bool // in the lower left corner, not the upper one
	series      []series
}

// series is one line of a chart.
type series struct {
	name   string
	paper  bool // dashed, in the colour of the line before
	points plotter.XYs
}

func (s *series) add(x, y float64) { s.points = append(s.points, plotter.XY{X: x, Y: y}) }

// colours are told apart also by those who see few of them (Okabe and Ito).
var colours = []color.RGBA{{0, 114, 178, 255}, {230, 159, 0, 255}, {0, 158, 115, 255},
	{213, 94, 0, 255},
	{204, 121, 167, 255}, {86, 180, 233, 255}, {120, 120, 120, 255}, {0, 0, 0, 255}}

var errNothingToDraw = errors.New("--plot: there is nothing to draw")

// save draws the chart into a file, in the format that its name ends with.
func (c *chart) save(file string) error { return savePlots(file, *c) }

// savePlots draws charts, one below the other, into a file, in the format that its name ends with.
func savePlots(file string, charts ...chart) error {
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
	return os.WriteFile(file, b.Bytes(), 0o644)
}

// plot draws the chart. A sweep of one point comes as bars.
func (c *chart) plot() (*plot.Plot, error) {
	if c.single() {
		return c.bars()
	}
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.title, c.x, c.y
	p.Add(plotter.NewGrid())
	drawn, colour := 0, -1
	for i := range c.series {
		if !c.series[i].paper {
			colour++
		}
		if c.add(p, &c.series[i], colours[max(0, colour)%len(colours)]) {
			drawn++
		}
	}
	if drawn == 0 {
		return nil, errNothingToDraw
	}
	scale(&p.X, c.logX)
	scale(&p.Y, c.logY)
	if !c.legendLow && c.logY {
		p.Y.Max *= 5 // room for the legend
	}
	if c.shares {
		p.X.Tick.Marker = shareTicks{}
	}
	c.dress(p)
	return p, nil
}

// dress sets fonts and distances.
func (c *chart) dress(p *plot.Plot) {
	for _, style := range []*text.Style{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle,
		&p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle} {
		style.Font.Variant = "Sans"
	}
	p.Title.TextStyle.Font.Size = vg.Points(13)
	p.Title.Padding = 4 * vg.Millimeter
	p.Legend.Top, p.Legend.Left = !c.legendLow, true
	p.Legend.Padding = vg.Millimeter
	p.Legend.XOffs = 3 * vg.Millimeter
	p.Legend.YOffs = 3 * vg.Millimeter
	if p.Legend.Top {
		p.Legend.YOffs = -p.Legend.YOffs
	}
}

// add draws one line. It reports false if no point of it can be shown.
func (c *chart) add(p *plot.Plot, s *series, col color.RGBA) bool {
	var shown plotter.XYs
	for _, q := range s.points {
		if (q.X > 0 || !c.logX) && (q.Y > 0 || !c.logY) && !math.IsInf(q.X+q.Y, 0) &&
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
	if s.paper {
		line.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
		points.Shape = draw.RingGlyph{}
	}
	p.Add(line, points)
	p.Legend.Add(s.name, line, points)
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
