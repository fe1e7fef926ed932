package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// span is what a ratio was in the turns: of each turn by itself, since a machine may be slower for
// a while.
type span struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

func (s span) String() string {
	return fmt.Sprintf("%.2f (%.2f to %.2f)", s.Median, s.Least, s.Most)
}

// spanOf is that of f of each turn.
func spanOf(turns int, f func(turn int) float64) span {
	var v []float64
	for i := range turns {
		v = append(v, f(i))
	}
	slices.Sort(v)
	return span{v[len(v)/2], v[0], v[len(v)-1]}
}

// ratios of one system. Its peer is the last system that is as durable.
type ratios struct {
	GetPut  span   `json:"get_put"`
	TailPut span   `json:"half_put_p99_p50"`
	TailGet span   `json:"half_get_p99_p50"`
	Peer    string `json:"peer"`
	PutPeer span   `json:"put_peer"`
	GetPeer span   `json:"get_peer"`
}

// ratiosOf compares all systems.
func ratiosOf(all []*subject) {
	peers := map[bool]*subject{}
	for _, s := range all {
		peers[s.row.Durable] = s
	}
	for _, s := range all {
		peer, n := peers[s.row.Durable], len(s.puts.full)
		s.row.Ratios = ratios{
			GetPut: spanOf(n, func(i int) float64 {
				return s.gets.full[i].PerSecond / s.puts.full[i].PerSecond
			}),
			TailPut: spanOf(n, func(i int) float64 { return s.puts.half[i].tail() }),
			TailGet: spanOf(n, func(i int) float64 { return s.gets.half[i].tail() }),
			Peer:    peer.row.System,
			PutPeer: spanOf(n, func(i int) float64 {
				return s.puts.full[i].PerSecond / peer.puts.full[i].PerSecond
			}),
			GetPeer: spanOf(n, func(i int) float64 {
				return s.gets.full[i].PerSecond / peer.gets.full[i].PerSecond
			})}
	}
}

// printRatios prints them as a table.
func printRatios(out io.Writer, rows []row) error {
	fmt.Fprintln(out, "\nratios of each turn, median (least to largest); p99/p50 at half load")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tGET/PUT\tPUT p99/p50\tGET p99/p50\ttimes\tPUT/s\tGET/s")
	for _, r := range rows {
		x := &r.Ratios
		fmt.Fprintf(w, "%s\t%v\t%v\t%v\t%s\t%v\t%v\n", r.name(), x.GetPut, x.TailPut, x.TailGet,
			x.Peer, x.PutPeer, x.GetPeer)
	}
	return w.Flush()
}
