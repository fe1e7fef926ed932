package paperlab

import (
	"io"

	"github.com/userspace-rpc/erpc/internal/paperlab/rfplab"
	"github.com/userspace-rpc/erpc/internal/paperlab/simlab"
	"github.com/userspace-rpc/erpc/kit/cli"
)

type simHerdCmd struct {
	simFlags
	Figure string `default:"named" help:"Which one: ${herd_figures}; default the figures that the paper's text names." placeholder:"NAME"`
}

// Help is shown by --help.
func (simHerdCmd) Help() string {
	return `Examples:
  erpc sim herd
  erpc sim herd --figure outbound --plot outbound.svg

Single verbs between modelled adapters, and calls by a WRITE and a datagram back,
beside the figures of HERD's paper. The inputs, each with its source, are in
rfp/onesided/model/params.go. Figures that follow from the inputs without a run
have the same in the column "inputs alone".`
}

// Run implements the subcommand.
func (c *simHerdCmd) Run(e *cli.Env) error {
	if err := c.check(); err != nil {
		return err
	}
	if c.Figure != "named" {
		return c.curve(e, c.Figure, "named", rfplab.HerdCurveNames, rfplab.HerdCurves)
	}
	if c.Plot != "" {
		return cli.Usagef("--plot: the figures of the paper's text are no curves; choose a --figure")
	}
	return c.run(e, func(p simlab.Progress) (outcome, error) {
		rep, err := rfplab.Herd(e.Ctx, c.Seed, p)
		return outcome{result: &rep, rows: len(rep.Figures), cut: rep.Cut,
			table: func(w io.Writer) { printFigures(w, rep.Figures) }}, err
	})
}
