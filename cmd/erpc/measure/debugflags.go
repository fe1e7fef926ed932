package measure

import (
	"errors"
	"fmt"

	"github.com/userspace-rpc/erpc/debug"
	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/cli"
)

// debugFlags open a debug socket.
type debugFlags struct {
	Debug       bool   `help:"Open a debug socket, for erpc top and erpc trace."`
	DebugSocket string `help:"With --debug: the file of the socket." placeholder:"FILE"`
	Record      int    `help:"With --debug: keep the last N datagrams of loops." placeholder:"N"`
	RecordDir   string `help:"Where SIGUSR2 and failed calls write them." placeholder:"DIR"`
}

// typeNames name the request types of the built-in service.
var typeNames = map[uint8]string{
	TypeEcho: "echo", TypeBench: "bench", typeControl: "control", TypeWork: "work",
}

// dumpCodes are the codes of calls that are worth a record.
var dumpCodes = []erpc.Code{
	erpc.CodeDeadlineExceeded, erpc.CodeUnavailable, erpc.CodeInternal, erpc.CodeDataLoss,
}

// startDebug opens the socket, if there is to be one; e closes it with the subcommand.
func (f *debugFlags) startDebug(e *Env, eps []*endpoint) error {
	if !f.Debug {
		if f.DebugSocket != "" || f.Record != 0 {
			return cli.Usagef("--debug-socket and --record need --debug")
		}
		return nil
	}
	if err := errors.Join(cli.Positive("--record", f.Record, 0)); err != nil {
		return err
	}
	var watched []erpc.Watched
	for _, ep := range eps {
		watched = append(watched, ep.rpc)
	}
	cfg := debug.Config{Path: f.DebugSocket, Record: f.Record, TypeNames: typeNames}
	if f.Record > 0 {
		cfg.Dumps = debug.Dumps{Dir: f.RecordDir, Signals: dumpSignals, Codes: dumpCodes,
			Told: func(file string, err error) {
				if err != nil {
					fmt.Fprintln(e.Err, cli.OneLine(err))
					return
				}
				fmt.Fprintf(e.Err, "recorded packets are in %s: see erpc trace show\n", file)
			}}
	}
	s, err := debug.Listen(cfg, watched...)
	if err != nil {
		return err
	}
	fmt.Fprintf(e.Err, "debug socket %s\n", s.Path())
	e.atEnd = append(e.atEnd, s.Close)
	return nil
}
