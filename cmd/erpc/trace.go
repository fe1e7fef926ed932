package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/userspace-rpc/erpc/flight"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/outfile"
	"github.com/userspace-rpc/erpc/transport/pcap"
)

type traceCmds struct {
	Record traceRecordCmd `cmd:"" help:"Record the packets of a running program for some time."`
	Dump   traceDumpCmd   `cmd:"" help:"Take what a program that records has recorded."`
	Show   traceShowCmd   `cmd:"" help:"Show a file of recorded packets."`
}

// showFlags say how records are shown.
type showFlags struct {
	As     string `default:"calls" enum:"calls,text,chrome,pcap" help:"${enum}; ${default}."`
	Most   int    `default:"20" help:"Most calls of each loop to show; ${default}."`
	Output string `short:"o" help:"Write to this file, not standard output." placeholder:"FILE"`
}

// show writes the records.
func (f *showFlags) show(e *env, dumps []*flight.Dump) error {
	if err := cli.Positive("--most", f.Most, 1); err != nil {
		return err
	}
	if len(dumps) == 0 {
		return errors.New("no loop recorded: see erpc trace record")
	}
	out := e.out
	if f.Output != "" {
		file, err := outfile.Create(f.Output, 0o600)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // errors come out of the writes
		out = file
	}
	switch f.As {
	case "text":
		return flight.WriteText(out, dumps...)
	case "chrome":
		return flight.WriteChrome(out, dumps...)
	case "pcap":
		for _, d := range dumps {
			if gap := d.Gap(); gap != "" {
				fmt.Fprintln(e.err, gap)
			}
		}
		return pcap.WriteFlight(out, dumps...)
	}
	return flight.WriteCalls(out, f.Most, dumps...)
}

type traceRecordCmd struct {
	target
	For  time.Duration `default:"2s" help:"How long; ${default}."`
	N    int           `name:"last" short:"n" default:"65536" help:"Datagrams to keep; ${default}."`
	Keep string        `help:"Keep the record in this file too." placeholder:"FILE"`
	showFlags
}

// Help is shown by --help.
func (traceRecordCmd) Help() string {
	return `Examples:
  erpc trace record                             the slowest calls of two seconds
  erpc trace record 4711 --for 10s --keep slow.flight
  erpc trace record --as chrome -o slow.json    open it in ui.perfetto.dev

It ends early with Ctrl-C and shows what there is. --as calls shows the slowest calls, text each
packet; chrome is for Perfetto and chrome://tracing, pcap for Wireshark. Records hold the payload
of small messages.`
}

// Run implements the subcommand.
func (c *traceRecordCmd) Run(e *env) error {
	err := errors.Join(cli.Positive("--last", c.N, 1), cli.Positive("--most", c.Most, 1))
	if err != nil {
		return err
	}
	client, about, err := c.open(e.ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	if about.Recording == 0 {
		if err := client.Record(e.ctx, c.N); err != nil {
			return err
		}
		defer func() {
			ctx, cancel := context.WithTimeout(context.Background(), askFor)
			defer cancel()
			_ = client.Record(ctx, 0) // it may have ended
		}()
	} else {
		fmt.Fprintf(e.err, "the program records already, %d datagrams\n", about.Recording)
	}
	fmt.Fprintf(e.err, "recording process %d for %v\n", about.PID, c.For)
	select {
	case <-time.After(c.For):
	case <-e.ctx.Done():
	}
	dumps, err := client.Flight(context.WithoutCancel(e.ctx))
	if err != nil {
		return err
	}
	if err := keep(c.Keep, dumps); err != nil {
		return err
	}
	return c.show(e, dumps)
}

// keep writes records to a file, if it has a name.
func keep(name string, dumps []*flight.Dump) error {
	if name == "" {
		return nil
	}
	f, err := outfile.Create(name, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(flight.Write(f, dumps...), f.Close())
}

type traceDumpCmd struct {
	target
	Keep string `help:"Keep the record in this file too." placeholder:"FILE"`
	showFlags
}

// Help is shown by --help.
func (traceDumpCmd) Help() string {
	return `Examples:
  erpc server --debug --record 65536 &
  erpc trace dump                  the slowest of the calls that are recorded
  erpc trace dump --as text | grep req=17`
}

// Run implements the subcommand.
func (c *traceDumpCmd) Run(e *env) error {
	client, about, err := c.open(e.ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	if about.Recording == 0 {
		return fmt.Errorf("process %d does not record: see erpc trace record", about.PID)
	}
	dumps, err := client.Flight(e.ctx)
	if err != nil {
		return err
	}
	if err := keep(c.Keep, dumps); err != nil {
		return err
	}
	return c.show(e, dumps)
}

type traceShowCmd struct {
	File string `arg:"" help:"File of recorded packets; - is standard input."`
	showFlags
}

// Help is shown by --help.
func (traceShowCmd) Help() string {
	return `Examples:
  erpc trace show slow.flight                the slowest calls
  erpc trace show slow.flight --as text
  erpc trace show slow.flight --as pcap -o slow.pcap && erpc decode slow.pcap`
}

// Run implements the subcommand.
func (c *traceShowCmd) Run(e *env) error {
	var in io.Reader = e.in
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	dumps, err := flight.Read(in)
	if err != nil {
		if len(dumps) == 0 {
			return fmt.Errorf("%s: %w", c.File, err)
		}
		fmt.Fprintf(e.err, "%s: %s; what came before is shown\n", c.File, cli.OneLine(err))
	}
	return c.show(e, dumps)
}
