package main

import (
	"image/color"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// plotSpeedups draws the rates of each peer divided by those of grpc-go over TCP, beside the
// paper's Table V.
func plotSpeedups(file string, cells []*cell) error {
	var workloads, names []string
	values := map[string]plotter.Values{"RR-Compound (paper)": nil}
	for _, c := range cells {
		if len(workloads) == 0 || workloads[len(workloads)-1] != strings.ToUpper(c.Workload) {
			workloads = append(workloads, strings.ToUpper(c.Workload))
			values["RR-Compound (paper)"] = append(values["RR-Compound (paper)"], paper[c.Workload])
		}
		if values[c.Peer] == nil {
			names = append(names, c.Peer)
		}
		values[c.Peer] = append(values[c.Peer], c.Ratio[0])
	}
	if len(cells) == 0 {
		return nil
	}
	names = append(names, "RR-Compound (paper)")
	p := plot.New()
	p.Title.Text, p.Y.Label.Text = "YCSB", "operations per second : grpc-go over TCP"
	p.Legend.Top = true
	width := vg.Points(9)
	for i, name := range names {
		b, err := plotter.NewBarChart(values[name], width)
		if err != nil {
			return err
		}
		b.Offset = width * vg.Length(float64(i)-float64(len(names)-1)/2)
		shade := uint8(230 - 200*i/len(names))
		b.Color = color.RGBA{R: shade, G: uint8(60 + 20*i), B: 255 - shade, A: 255}
		p.Add(b)
		p.Legend.Add(name, b)
	}
	p.Y.Min = 0
	p.NominalX(workloads...)
	return p.Save(28*vg.Centimeter, 12*vg.Centimeter, file)
}
