package measure

import (
	"errors"
	"strconv"

	"github.com/alecthomas/kong"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/cli"
)

// Env is given to a subcommand beside its flags.
type Env struct {
	*cli.Env

	atEnd     []func() error // run when the subcommand has ended, however it did
	crowdTold bool           // that loops outnumber cores
}

// Run runs what was parsed, whose subcommands may want e, or an Env, or one of more.
func Run(parsed *kong.Context, e *cli.Env, more ...any) error {
	own := &Env{Env: e}
	err := parsed.Run(append(more, e, own)...)
	for _, end := range own.atEnd {
		err = errors.Join(err, end())
	}
	return err
}

// Groups are the titles of the groups of flags.
var Groups = []kong.Group{
	{Key: "debug", Title: "Debug socket:"},
	{Key: "faults", Title: "Faults to inject:"},
	{Key: "net", Title: "Network path and event loops:"},
}

// Vars are the variables of the help.
var Vars = kong.Vars{"maxtype": strconv.Itoa(erpc.MaxReqType)}
