//go:build !linux

package measure

import (
	"os"

	"github.com/userspace-rpc/erpc/kit/cli"
)

// allowedCores returns nil: threads are not pinned here.
func allowedCores() []int { return nil }

// plainSocket exists on Linux only; elsewhere the transport is the only yardstick.
type plainSocket struct{}

func listenPlain(string) (*plainSocket, string, error) { return nil, "", cli.ErrLinuxOnly }
func dialPlain(string) (*plainSocket, error)           { return nil, cli.ErrLinuxOnly }
func (*plainSocket) close() error                      { return nil }
func (*plainSocket) write([]byte) error                { return cli.ErrLinuxOnly }
func (*plainSocket) read() (int, error)                { return 0, cli.ErrLinuxOnly }
func (*plainSocket) echo(int) (int, error)             { return 0, cli.ErrLinuxOnly }

// dumpSignals make a program write what it has recorded: none here.
var dumpSignals []os.Signal
