package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"time"
)

// The kinds of what is below the stubs. Grpc-go over a unix socket and the bare program are
// measured in their rows alone.
const (
	tcpKind = iota
	unixKind
	udpKind
	shmKind
	bareKind
)

var kinds = [...]string{
	"grpc-go TCP", "grpc-go unix", "grpcerpc UDP", "grpcerpc shm", "bare TCP",
}

func main() {
	var o options
	flag.DurationVar(&o.each, "each", 400*time.Millisecond, "how long a measurement takes")
	flag.IntVar(&o.rounds, "rounds", 3, "measurements of each kind")
	flag.StringVar(&o.only, "only", "", "measure only rows whose names have this text")
	flag.BoolVar(&o.bars, "bars", false, "print ranges, CPU and whether the bars are met")
	flag.BoolVar(&o.bare, "bare", false,
		"measure ping-pong alone, and beside it the least program that does the same")
	serve := flag.Int("serve", -1, "run the server of a kind alone, by its number")
	drive := flag.Int("drive", -1, "run the client of a kind alone, by its number")
	addr := flag.String("addr", "", "the server of -drive")
	flag.Parse()
	if o.bare {
		o.only = "ping-pong"
	}
	var err error
	switch {
	case *serve >= 0 && *serve < len(kinds):
		err = runServer(*serve)
	case *drive >= 0 && *drive < len(kinds):
		err = runClient(*drive, *addr)
	default:
		err = run(&o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// options has the values of the flags.
type options struct {
	each   time.Duration
	rounds int
	only   string
	bars   bool
	bare   bool
}

// run starts a server and a client of each kind that a row needs, measures, and prints the table.
func run(o *options) (err error) {
	b := newBench(o)
	end := func(c *child) { err = errors.Join(err, c.end()) }
	for _, i := range b.kinds {
		server, err := start("-serve", fmt.Sprint(i))
		if err != nil {
			return err
		}
		defer end(server)
		addr, err := server.line()
		if err != nil {
			return err
		}
		client, err := start("-drive", fmt.Sprint(i), "-addr", addr)
		if err != nil {
			return err
		}
		defer end(client)
		b.pairs[i] = pair{server, client}
	}
	return b.measureAll()
}
