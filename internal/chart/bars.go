package chart

import (
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// shareTicks mark an axis of 1/(1-share) with shares.
type shareTicks struct{}

// Ticks implements plot.Ticker.
func (shareTicks) Ticks(least, most float64) (ticks []plot.Tick) {
	for x, nines := 1.0, 0; x <= most; x, nines = x*10, nines+1 {
		if x < least {
			continue
		}
		label := "0 %"
		if nines > 0 {
			text := strings.Repeat("9", nines)
			if nines == 1 {
				text = "90"
			}
			if label = text + " %"; nines > 2 {
				label = text[:2] + "." + text[2:] + " %"
			}
		}
		ticks = append(ticks, plot.Tick{Value: x, Label: label},
			plot.Tick{Value: 2 * x}, plot.Tick{Value: 5 * x})
	}
	return ticks
}

// single reports whether all points have the same x: lines would be lone dots.
func (c *Chart) single() bool {
	n, x := 0, 0.0
	for i := range c.Series {
		for _, p := range c.Series[i].Points {
			if n > 0 && p.X != x {
				return false
			}
			n, x = n+1, p.X
		}
	}
	return n > 0
}

// bars draws the chart as bars, one for each series; those of a paper are hollow.
func (c *Chart) bars() (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.Y.Label.Text = c.Title, c.Y
	var names []string
	colour := -1
	for i := range c.Series {
		s := &c.Series[i]
		if !s.Paper {
			colour++
		}
		if len(s.Points) == 0 || math.IsNaN(s.Points[0].Y) || math.IsInf(s.Points[0].Y, 0) ||
			c.LogY && s.Points[0].Y <= 0 || c.LogX && s.Points[0].X <= 0 {
			continue
		}
		p.X.Label.Text = fmt.Sprintf("%s: %.6g", c.X, s.Points[0].X)
		bar, err := plotter.NewBarChart(plotter.Values{s.Points[0].Y}, 1.5*vg.Centimeter)
		if err != nil {
			return nil, err
		}
		bar.XMin = float64(len(names))
		fill := colours[max(0, colour)%len(colours)]
		bar.LineStyle.Color = fill
		if bar.Color = fill; s.Paper {
			bar.Color = nil
			bar.LineStyle.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
		}
		names = append(names, fmt.Sprintf("%s\n%.4g", s.Name, s.Points[0].Y))
		p.Add(bar)
	}
	if len(names) == 0 {
		return nil, ErrNothingToDraw
	}
	p.NominalX(names...)
	scale(&p.Y, false)
	c.dress(p)
	return p, nil
}
