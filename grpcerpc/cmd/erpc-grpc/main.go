package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/userspace-rpc/erpc/grpcerpc"
)

const usage = `use: erpc-grpc list HOST:PORT
     erpc-grpc call [--timeout TIME] HOST:PORT /package.Service/Method [JSON | -]
`

// errUsage is a mistake in the command line.
var errUsage = errors.New("wrong usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout)
	stop()
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprintf(os.Stderr, "erpc-grpc: %v\n%s", err, usage)
		os.Exit(2)
	case err != nil:
		fmt.Fprintf(os.Stderr, "erpc-grpc: %v\n", err)
		os.Exit(1)
	}
}

// run runs one command line.
func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	timeout := flags.Duration("timeout", 5*time.Second, "deadline of the call")
	if err := flags.Parse(args[1:]); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	n := flags.NArg()
	list := args[0] == "list" && n == 1
	if !list && (args[0] != "call" || n < 2 || n > 3) {
		return errUsage
	}
	body := []byte(flags.Arg(2))
	if flags.Arg(2) == "-" {
		var err error
		if body, err = io.ReadAll(in); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	cc, err := grpcerpc.NewClient(flags.Arg(0))
	if err != nil {
		return err
	}
	if list {
		err = listServices(ctx, cc, out)
	} else {
		err = call(ctx, cc, flags.Arg(1), body, out)
	}
	return errors.Join(err, cc.Close())
}
