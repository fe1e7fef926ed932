package measure

import (
	"errors"
	"sync/atomic"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// checkOnePort complains about flags that make no sense with --one-port.
func (c *ServerCmd) checkOnePort() error {
	switch {
	case !c.OnePort:
		return nil
	case c.Transport != "udp":
		return cli.Usagef("--one-port is for --transport udp, not %s", c.Transport)
	case c.Raw || c.Symmetric:
		return cli.Usagef("--one-port does not go with --raw and --symmetric: " +
			"their clients choose a loop by its port")
	}
	return nil
}

// openOnePort opens event loops that share an address, or none.
func (c *ServerCmd) openOnePort(cores []int, stop *atomic.Bool) ([]*endpoint, error) {
	trs, err := c.listenGroup(c.Addr, len(cores))
	if err != nil {
		return nil, err
	}
	of := make(map[*erpc.Rpc]*endpoint) // written before the first loop runs
	nexus, err := c.newNexus(
		func(h erpc.ReqHandle) { of[h.Rpc()].echo(h) },
		func(h erpc.ReqHandle) { of[h.Rpc()].bench(h) },
		func(h erpc.ReqHandle) { of[h.Rpc()].control(h) })
	if err != nil {
		return nil, closeAll(err, trs)
	}
	rpcs, err := nexus.NewRpcs(trs)
	if err != nil {
		return nil, errors.Join(err, nexus.Close())
	}
	var open atomic.Int32
	open.Store(int32(len(rpcs)))
	last := func() error {
		if open.Add(-1) > 0 {
			return nil
		}
		return nexus.Close()
	}
	var eps []*endpoint
	for i, r := range rpcs {
		ep := &endpoint{
			flags: &c.NetFlags, core: cores[i], stop: stop, rpc: r, closeNexus: last,
			siblings: []string{r.LocalAddr().String()},
		}
		of[r] = ep
		eps = append(eps, ep)
	}
	return eps, nil
}

// listenGroup opens sockets on one address, captured if that is wanted.
func (f *NetFlags) listenGroup(addr string, n int) (trs []transport.Transport, err error) {
	conns, err := udp.ListenGroup(addr, n, f.udpConfig())
	var bad *udp.ConfigError
	var badGroup *udp.GroupError
	if errors.As(err, &bad) || errors.As(err, &badGroup) {
		return nil, cli.UsageError(cli.OneLine(err))
	}
	for _, c := range conns {
		var tr transport.Transport = c
		if f.capture != nil {
			tr = f.capture.Wrap(tr)
		}
		trs = append(trs, tr)
	}
	return trs, err
}

// closeAll closes transports, and returns what failed.
func closeAll(err error, trs []transport.Transport) error {
	for _, tr := range trs {
		err = errors.Join(err, tr.Close())
	}
	return err
}
