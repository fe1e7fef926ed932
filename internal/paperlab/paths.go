package paperlab

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/internal/chart"
	"github.com/userspace-rpc/erpc/internal/paperlab/simlab"
	"github.com/userspace-rpc/erpc/kit/cli"
)

type simPathsCmd struct {
	simFlags
	Paths     int           `default:"4" help:"Spines, and so paths between the two racks; default ${default}." placeholder:"N"`
	Rivals    int           `default:"4" help:"Other clients, which send all they can on the first path; default ${default}." placeholder:"N"`
	Algorithm string        `default:"timely" help:"Congestion control: timely, dcqcn, swift or none; default ${default}." placeholder:"NAME"`
	Size      int           `default:"262144" help:"Bytes in a request; default ${default}." placeholder:"BYTES"`
	Window    int           `default:"8" help:"Requests under way; default ${default}." placeholder:"N"`
	Warmup    time.Duration `default:"5ms" help:"Virtual time before anything counts; default ${default}." placeholder:"TIME"`
	Duration  time.Duration `default:"20ms" help:"Virtual time that counts; default ${default}." placeholder:"TIME"`
}

// Help is shown by --help.
func (simPathsCmd) Help() string {
	return `Examples:
  erpc sim paths
  erpc sim paths --paths 8 --rivals 2 --algorithm swift
  erpc sim paths --json

Switches choose among paths by the addresses and ports of a packet. The client has a socket for
each path, and sends each request by the one that a policy says.`
}

func (c *simPathsCmd) config() (f simlab.PathsConfig, err error) {
	f = simlab.PathsConfig{Paths: c.Paths, Rivals: c.Rivals, Size: c.Size, Window: c.Window,
		Warmup: c.Warmup, Duration: c.Duration, Seed: c.Seed}
	if f.Algorithm, err = algorithm(c.Algorithm, "timely", "dcqcn", "swift", "none"); err != nil {
		return f, err
	}
	return f, errors.Join(c.check(), cli.Between("--paths", c.Paths, 2, 64),
		cli.Between("--rivals", c.Rivals, 0, 64), largeSize(c.Size),
		cli.Between("--window", c.Window, 1, 1000), simulated("--warmup", c.Warmup, 0),
		simulated("--duration", c.Duration, 10*time.Microsecond))
}

// Run implements the subcommand.
func (c *simPathsCmd) Run(e *cli.Env) error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	return c.run(e, func(p simlab.Progress) (outcome, error) {
		res, err := simlab.Paths(e.Ctx, cfg, p)
		return outcome{&res, len(res.Rows), res.Interrupted,
			func(w io.Writer) { printPaths(w, &res) }, func() chart.Chart { return pathsChart(&res) }}, err
	})
}

func printPaths(w io.Writer, r *simlab.PathsResult) {
	fmt.Fprintf(w, "Simulated racks with %d paths between them: a client's requests of %d B, %d "+
		"under way, %d others on the first path, cc %s. Seed %d.\nAfter a warm-up of %s, %s count.\n\n",
		r.Paths, r.Size, r.Window, r.Rivals, r.Algorithm, r.Seed, seconds(r.Warmup), seconds(r.Duration))
	t := cli.NewTable(w)
	fmt.Fprintln(t, "policy\tgoodput\tp50\tp99\tcalls by path")
	for _, row := range r.Rows {
		var shares []string
		for _, s := range row.Shares {
			shares = append(shares, fmt.Sprintf("%.0f %%", 100*s))
		}
		fmt.Fprintf(t, "%s\t%.1f Gbit/s\t%.0f us\t%.0f us\t%s\n", row.Policy, row.Gbps, row.P50, row.P99,
			strings.Join(shares, ", "))
	}
	_ = t.Flush()
}

// pathsChart shows goodput by policy.
func pathsChart(r *simlab.PathsResult) chart.Chart {
	s := chart.Series{Name: "goodput"}
	for i, row := range r.Rows {
		s.Add(float64(i+1), row.Gbps)
	}
	return chart.Chart{Title: fmt.Sprintf("Goodput by policy with %d paths, seed %d", r.Paths, r.Seed),
		X: "policy, as in the table", Y: "Gbit/s", Series: []chart.Series{s}}
}
