package measure

import (
	"os"
	"testing"

	"github.com/alecthomas/kong"
	"go.uber.org/goleak"

	"github.com/userspace-rpc/erpc/kit/cli"
)

// asServer makes the test binary behave as a server process, which the benches start from their own
// executable.
const asServer = "ERPC_TEST_AS_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		cli.Main(run)
	}
	if err := os.Setenv(asServer, "1"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// run is a command that has the server alone.
func run(e *cli.Env, args []string) int {
	var c struct {
		Server ServerCmd `cmd:""`
	}
	app := cli.App{Name: "erpc", Options: []kong.Option{Vars}}
	return app.Run(e, &c, args, func(e *cli.Env, parsed *kong.Context) error { return Run(parsed, e) })
}
