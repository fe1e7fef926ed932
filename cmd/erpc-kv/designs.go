package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/userspace-rpc/erpc/kit/cli"
)

type designsCmd struct {
	keyFlags
	Addr        string        `required:"" help:"${designs_addr_help}" placeholder:"HOST:0"`
	Iface       string        `help:"RDMA device of the client; default: by address."`
	Gets        float64       `default:"0.95" help:"Share of GETs; ${default}." placeholder:"P"`
	Outstanding []int         `default:"1,8,16" help:"Requests under way; ${default}." placeholder:"N"`
	Rounds      int           `default:"7" help:"Rounds; ${default}." placeholder:"N"`
	Each        time.Duration `default:"1s" help:"Time of a cell; ${default}." placeholder:"TIME"`
	JSON        bool          `name:"json" help:"Print one JSON object."`
}

// designCell has the results of all rounds of a design with so many requests under way.
type designCell struct {
	Design      string    `json:"design"`
	Outstanding int       `json:"outstanding"`
	Rates       []float64 `json:"operations_per_second"` // by round
	P50         []float64 `json:"get_p50_us"`
	Ratios      []float64 `json:"ratio_to_write"` // by round
}

// designNames are the designs in the order of the table; erpc runs over transport ud.
var designNames = []string{"herd", "write", "send", "erpc"}

func (c *designsCmd) check() error {
	switch {
	case c.Rounds < 1 || c.Rounds > 99 || c.Each < time.Millisecond || c.Each > time.Minute:
		return cli.Usagef("--rounds %d, --each %v: want 1 to 99, and 1ms to 1m", c.Rounds, c.Each)
	case len(c.Outstanding) == 0 || slices.Min(c.Outstanding) < 1 || slices.Max(c.Outstanding) > 256:
		return cli.Usagef("--outstanding %v: want 1 to 256", c.Outstanding)
	}
	_, err := c.set()
	return err
}

// Run implements the subcommand.
func (c *designsCmd) Run(e *cli.Env) error {
	if err := c.check(); err != nil {
		return err
	}
	var cells []*designCell
	for _, n := range c.Outstanding {
		for _, name := range designNames {
			cells = append(cells, &designCell{Design: name, Outstanding: n})
		}
	}
	for round := range c.Rounds {
		for i := range designNames {
			name := designNames[(round+i)%len(designNames)]
			if err := c.round(e, name, cells); err != nil {
				return fmt.Errorf("design %s: %w", name, err)
			}
		}
		fmt.Fprintf(e.Err, "round %d of %d\n", round+1, c.Rounds)
	}
	base := map[int][]float64{}
	for _, cell := range cells {
		if cell.Design == "write" {
			base[cell.Outstanding] = cell.Rates
		}
	}
	for _, cell := range cells {
		for i, r := range cell.Rates {
			cell.Ratios = append(cell.Ratios, r/base[cell.Outstanding][i])
		}
	}
	if c.JSON {
		return e.Print(true, cells, "")
	}
	return c.print(e, cells)
}

// round starts a server of a design, fills it, and measures each cell once.
func (c *designsCmd) round(e *cli.Env, name string, cells []*designCell) (err error) {
	net, by := netFlags{Transport: "udp", Iface: c.Iface}, designFlags{Design: name}
	if name == "erpc" {
		net.Transport = "ud"
	}
	args := []string{"serve", "--child", "--json", "--no-hugepages", "--addr=" + c.Addr,
		"--transport=" + net.Transport, "--design=" + name, "--memory=64",
		fmt.Sprint("--item-size=", keySize+c.Value),
		fmt.Sprint("--window=", slices.Max(c.Outstanding))}
	var r ready
	s, err := cli.StartChild(args, childEnv, &r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	flags := clientFlags{netFlags: net, Servers: r.Addrs, Timeout: time.Minute}
	load := loadCmd{clientFlags: flags, designFlags: by, keyFlags: c.keyFlags, Depth: 16}
	if _, err := load.load(&cli.Env{Ctx: e.Ctx, Out: e.Out, Err: io.Discard}); err != nil {
		return err
	}
	for _, cell := range cells {
		if cell.Design != name {
			continue
		}
		b := benchCmd{clientFlags: flags, designFlags: by, keyFlags: c.keyFlags, Gets: c.Gets,
			Outstanding: cell.Outstanding, Each: c.Each}
		r, err := b.measure(e)
		if err != nil {
			return err
		}
		cell.Rates, cell.P50 = append(cell.Rates, r.Rate), append(cell.P50, r.Get.P50)
	}
	return nil
}

// spread returns the median, the least and the greatest of a list.
func spread(list []float64) (median, least, most float64) {
	s := slices.Sorted(slices.Values(list))
	return s[len(s)/2], s[0], s[len(s)-1]
}

func (c *designsCmd) print(e *cli.Env, cells []*designCell) error {
	w := tabwriter.NewWriter(e.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "outstanding\tdesign\tk/s\tall rounds\tGET p50\tto write\trange\n")
	for _, cell := range cells {
		rate, _, _ := spread(cell.Rates)
		p50, _, _ := spread(cell.P50)
		ratio, least, most := spread(cell.Ratios)
		var all []string
		for _, r := range cell.Rates {
			all = append(all, fmt.Sprintf("%.1f", r/1e3))
		}
		fmt.Fprintf(w, "%d\t%s\t%.1f\t%v\t%.0f us\t%.2f\t%.2f to %.2f\n", cell.Outstanding,
			cell.Design, rate/1e3, all, p50, ratio, least, most)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(e.Out, "%d rounds, %v a cell, %.0f %% GETs, %d keys, values of %d bytes; "+
		"medians. Designs: herd, requests\nwritten over UC and answers sent over UD; write, both "+
		"written over RC, pipelined; send, both sent over UD;\nerpc, its transport ud.\n",
		c.Rounds, c.Each, 100*c.Gets, c.Keys, c.Value)
	return err
}
