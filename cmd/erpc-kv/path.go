package main

import (
	"context"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/loadgen"
	"github.com/userspace-rpc/erpc/kv/client"
	"github.com/userspace-rpc/erpc/kv/herd/rdma"
	"github.com/userspace-rpc/erpc/kv/message"
)

// path is how the operations of a measurement reach their servers. One goroutine uses it.
type path interface {
	Get(key []byte, tag uint64, done message.Done) error
	Put(key, value []byte, tag uint64, done message.Done) error
	Pending() int
	// Run does what there is to do until the function returns true, and waits in between.
	Run(until func() bool) error
	// Pass is one round of that, without waiting.
	Pass() error
	// Wake has Run ask its function; any goroutine may call it.
	Wake()
	Close() error
}

// sessions are the path over erpc. Operations take turns by their tags.
type sessions struct {
	loops []*client.Loop
	*loadgen.Endpoint
}

func (p *sessions) Get(key []byte, tag uint64, done message.Done) error {
	return p.loops[tag%uint64(len(p.loops))].Get(key, tag, done)
}

func (p *sessions) Put(key, value []byte, tag uint64, done message.Done) error {
	return p.loops[tag%uint64(len(p.loops))].Put(key, value, tag, done)
}

func (p *sessions) Pending() (n int) {
	for _, l := range p.loops {
		n += l.Pending()
	}
	return n
}

func (p *sessions) Run(until func() bool) error { return p.Rpc.Run(until) }
func (p *sessions) Wake()                       { p.Rpc.Wake() }

func (p *sessions) Pass() error {
	_, err := p.Rpc.RunOnce()
	return err
}

// slots are the path over queue pairs.
type slots struct{ *rdma.Client }

func (p slots) Wake() {} // its Run never sleeps long

func (p slots) Pass() error {
	_, err := p.Poll()
	return err
}

// designFlags choose between erpc and package herd.
type designFlags struct {
	Design string `default:"erpc" help:"${design_help}" placeholder:"NAME"`
}

func (f *designFlags) check() error {
	switch f.Design {
	case "erpc", "herd", "send", "write":
		return nil
	}
	return cli.Usagef("design %q is unknown; there are erpc, herd, send and write", f.Design)
}

// errPlain refuses keys for queue pairs.
func errPlain(design string) error {
	return cli.Usagef("design %s sends everything in the clear: keys and certificates are for erpc",
		design)
}

// connect opens a way to the servers, for so many operations at a time.
func connect(
	e *cli.Env, f *clientFlags, by *designFlags, depth int, keys *keyset,
) (d *drive, err error) {
	if f.Timeout <= 0 {
		return nil, cli.Usagef("--timeout %v: must be positive", f.Timeout)
	}
	if err := by.check(); err != nil {
		return nil, err
	}
	d = &drive{ctx: e.Ctx, keys: keys, value: make([]byte, keys.value)}
	d.onGet, d.onPut = d.got, d.stored
	if by.Design != "erpc" && f.Wanted() {
		return nil, errPlain(by.Design)
	}
	if by.Design == "erpc" {
		d.path, err = f.sessions(e, depth)
	} else {
		d.path, err = f.slots(e, rdma.Design(by.Design))
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// slots meets a server of package herd.
func (f *clientFlags) slots(e *cli.Env, design rdma.Design) (slots, error) {
	if len(f.Servers) != 1 {
		return slots{}, cli.Usagef("--servers: one with design %s, not %d", design, len(f.Servers))
	}
	ctx, cancel := context.WithTimeout(e.Ctx, f.Timeout)
	defer cancel()
	c, err := rdma.Dial(ctx, f.Servers[0], rdma.ClientConfig{Design: design, Device: f.Iface})
	return slots{c}, err
}
