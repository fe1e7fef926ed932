package main

import (
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kv/message"
	"github.com/userspace-rpc/erpc/kv/mica"
)

type getCmd struct {
	clientFlags
	Key string `arg:"" help:"The key."`
}

type putCmd struct {
	clientFlags
	Key    string `arg:"" help:"The key."`
	Value  string `arg:"" help:"The value."`
	Absent bool   `help:"Only if the key is not there."`
	Life   uint32 `help:"Seconds until it goes; 0, the default: it stays." placeholder:"SECONDS"`
}

type deleteCmd struct {
	clientFlags
	Key string `arg:"" help:"The key."`
}

type statsCmd struct{ clientFlags }

// item is an item as it is printed.
type item struct {
	Key     string `json:"key"`
	Value   string `json:"value"`
	Version uint64 `json:"version"`
}

var errNoKey = errors.New("no such key")

// missing gives an error the words of this program.
func missing(err error) error {
	if errors.Is(err, mica.ErrNotFound) {
		return errNoKey
	}
	return err
}

// Run implements the subcommand.
func (c *getCmd) Run(e *cli.Env) (err error) {
	x, end, err := c.dial(e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	v, err := x.Get(e.Ctx, []byte(c.Key))
	if err != nil {
		return missing(err)
	}
	return e.Print(c.JSON, item{c.Key, string(v.Value), v.Version}, "%s", v.Value)
}

// Run implements the subcommand.
func (c *putCmd) Run(e *cli.Env) (err error) {
	x, end, err := c.dial(e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	w := message.Item{Key: []byte(c.Key), Value: []byte(c.Value), Life: c.Life}
	if c.Absent {
		w.If = mica.IfAbsent
	}
	version, err := x.Write(e.Ctx, w)
	if err != nil {
		return err
	}
	return e.Print(c.JSON, item{c.Key, c.Value, version}, "stored")
}

// Run implements the subcommand.
func (c *deleteCmd) Run(e *cli.Env) (err error) {
	x, end, err := c.dial(e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	if err := x.Delete(e.Ctx, []byte(c.Key), 0); err != nil {
		return missing(err)
	}
	return e.Print(c.JSON, item{Key: c.Key}, "deleted")
}

// Run implements the subcommand.
func (c *statsCmd) Run(e *cli.Env) (err error) {
	x, end, err := c.dial(e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	stats, errs := x.Stats(e.Ctx)
	for name, err := range errs {
		fmt.Fprintf(e.Err, "%s: %s\n", name, cli.OneLine(err))
	}
	if len(stats) == 0 {
		return errors.New("no server answered: are they running at --servers?")
	}
	if c.JSON {
		return e.Print(true, stats, "")
	}
	w := tabwriter.NewWriter(e.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "server\tpartition\titems\tMiB\tbytes per item\thits\tmisses\tputs\tevicted\t"+
		"lost place\texpired\trefused\tby index\t")
	names := slices.Clone(c.Servers)
	for _, name := range slices.Compact(names) {
		for i, s := range stats[name] {
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%.1f\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", name, i, s.Items,
				s.Memory>>20, s.BytesPerItem(), s.Hits, s.Misses, s.Puts, s.Evictions, s.IndexEvictions,
				s.Expired, s.Fulls, s.IndexFulls)
		}
	}
	return w.Flush()
}
