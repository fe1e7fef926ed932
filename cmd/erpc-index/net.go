package main

import (
	"errors"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/index/client"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/cli/secure"
	"github.com/userspace-rpc/erpc/kit/loadgen"
	"github.com/userspace-rpc/erpc/transport"
)

// netFlags choose the network path.
type netFlags struct {
	Transport string `default:"udp" help:"${transport_help}" placeholder:"NAME"`
	JSON      bool   `name:"json" help:"Print one JSON object."`
	secure.Flags
}

// listen opens an endpoint; addr "" is any. The files of keys are loaded first.
func (f *netFlags) listen(addr string) (transport.Transport, error) {
	if err := f.Load(); err != nil {
		return nil, err
	}
	tr, err := loadgen.Listen(f.Transport, addr)
	var unknown *loadgen.UnknownError
	if errors.As(err, &unknown) {
		return nil, cli.Usagef("%v", err)
	}
	return tr, err
}

// clientFlags are those of all that talk to running servers.
type clientFlags struct {
	netFlags
	Servers string        `default:"127.0.0.1:31860" help:"${servers_help}" placeholder:"MAP"`
	Timeout time.Duration `default:"5s" help:"${timeout_help}" placeholder:"TIME"`
}

// server is where a range of keys is.
type server struct {
	from []byte
	addr string
}

// list reads --servers.
func (f *clientFlags) list() (list []server, err error) {
	if f.Timeout <= 0 {
		return nil, cli.Usagef("--timeout %v: must be positive", f.Timeout)
	}
	for part := range strings.SplitSeq(f.Servers, ",") {
		s := server{addr: part}
		if len(list) > 0 {
			from, addr, ok := strings.Cut(part, "=")
			if !ok || addr == "" {
				return nil, cli.Usagef("--servers %q: want ADDR,KEY=ADDR,...", f.Servers)
			}
			s = server{[]byte(from), addr}
		}
		list = append(list, s)
	}
	return list, nil
}

// dial opens a client for goroutines. The returned function ends it.
func (f *clientFlags) dial(e *cli.Env) (*client.Client, func() error, error) {
	list, err := f.list()
	if err != nil {
		return nil, nil, err
	}
	tr, err := f.listen("")
	if err != nil {
		return nil, nil, err
	}
	loop, err := erpc.NewLoop(tr, f.config())
	if err != nil {
		return nil, nil, err
	}
	var ranges client.Ranges[client.Caller]
	for _, s := range list {
		c, err := loop.Dial(e.Ctx, s.addr)
		if err != nil {
			return nil, nil, errors.Join(err, loop.Close())
		}
		ranges = append(ranges, client.Range[client.Caller]{From: s.from, Server: c})
	}
	c, err := client.New(ranges)
	if err != nil {
		return nil, nil, errors.Join(err, loop.Close())
	}
	return c, loop.Close, nil
}

// config is that of a client, once the files of keys are loaded.
func (f *clientFlags) config() erpc.Config {
	cfg := erpc.Config{NoHugepages: true, Timing: erpc.Timing{ConnectTimeout: f.Timeout}}
	f.Apply(&cfg)
	return cfg
}
