package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/userspace-rpc/erpc/labs/raft/lab"
)

// ratios are those of one system. Its peer is the last system that is as durable.
type ratios struct {
	GetPut  lab.Ratio `json:"get_put"`
	TailPut lab.Ratio `json:"half_put_p99_p50"`
	TailGet lab.Ratio `json:"half_get_p99_p50"`
	Peer    string    `json:"peer"`
	PutPeer lab.Ratio `json:"put_peer"`
	GetPeer lab.Ratio `json:"get_peer"`
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
			GetPut: lab.RatioOf(n, func(i int) float64 {
				return s.gets.full[i].PerSecond / s.puts.full[i].PerSecond
			}),
			TailPut: lab.RatioOf(n, func(i int) float64 { return s.puts.half[i].tail() }),
			TailGet: lab.RatioOf(n, func(i int) float64 { return s.gets.half[i].tail() }),
			Peer:    peer.row.System,
			PutPeer: lab.RatioOf(n, func(i int) float64 {
				return s.puts.full[i].PerSecond / peer.puts.full[i].PerSecond
			}),
			GetPeer: lab.RatioOf(n, func(i int) float64 {
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
