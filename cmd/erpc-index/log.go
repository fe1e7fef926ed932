package main

import (
	"errors"
	"fmt"

	"github.com/userspace-rpc/erpc/index"
	"github.com/userspace-rpc/erpc/index/durable"
	"github.com/userspace-rpc/erpc/kit/cli"
)

// logFlags say how writes are kept.
type logFlags struct {
	Log   string `help:"${log_help}" placeholder:"DIR"`
	Fsync string `help:"${fsync_help}" placeholder:"WHEN"`
}

// policies are those of --fsync, with the names that redis has for them.
var policies = map[string]durable.Policy{
	"": durable.EverySecond, "everysec": durable.EverySecond, "always": durable.Always,
	"no": durable.Never,
}

func (f *logFlags) check() error {
	switch _, ok := policies[f.Fsync]; {
	case !ok:
		return cli.Usagef("--fsync %s: want always, everysec or no", f.Fsync)
	case f.Fsync != "" && f.Log == "":
		return cli.Usagef("--fsync %s: names no folder: give --log DIR too", f.Fsync)
	}
	return nil
}

// open opens the log and fills the map from it, or begins a log with what the map has from a
// snapshot. Without --log it is nil.
func (f *logFlags) open(
	e *cli.Env, m *index.Map, snapshot string,
) (*durable.Store[uint64], error) {
	if f.Log == "" {
		return nil, nil
	}
	had := m.Len()
	log, err := durable.Open(f.Log, m, durable.Config{Sync: policies[f.Fsync],
		Report: func(err error) { fmt.Fprintln(e.Err, err) }})
	switch {
	case errors.Is(err, durable.ErrForeign) && had > 0:
		return nil, fmt.Errorf("--log %w; to go on with the index there, leave --snapshot %s out", err,
			snapshot)
	case err != nil:
		return nil, fmt.Errorf("--log %w", err)
	case had == 0:
		fmt.Fprintf(e.Err, "%d keys from %s\n", m.Len(), f.Log)
	}
	return log, nil
}
