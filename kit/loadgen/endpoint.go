package loadgen

import (
	"context"
	"errors"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
)

// Endpoint is the client side of a measurement: an event loop and its sessions.
type Endpoint struct {
	Rpc *erpc.Rpc
	// Err is the first failure of a session.
	Err error
	// Failed gets each failure of a session, if it is not nil.
	Failed func(error)

	nexus            *erpc.Nexus
	asked, connected int // sessions
}

// Open makes an endpoint on a transport, which it owns, also when it fails. OnSession of cfg is the
// Endpoint's, and it takes no sessions. The caller must Close it.
func Open(tr transport.Transport, cfg erpc.Config) (p *Endpoint, err error) {
	p = &Endpoint{}
	cfg.OnSession, cfg.DialOnly = p.event, true
	if p.nexus, err = erpc.NewNexus(cfg); err != nil {
		return nil, errors.Join(err, tr.Close())
	}
	if p.Rpc, err = p.nexus.NewRpc(tr); err != nil {
		return nil, errors.Join(err, p.nexus.Close())
	}
	return p, nil
}

func (p *Endpoint) event(_ *erpc.Rpc, s *erpc.Session, ev erpc.SessionEvent) {
	switch ev {
	case erpc.SessionConnected:
		p.connected++
	case erpc.SessionClosed:
	default:
		err := s.Err()
		if err == nil {
			err = erpc.ErrDraining
		}
		if p.Err == nil {
			p.Err = err
		}
		if p.Failed != nil {
			p.Failed(err)
		}
	}
}

// Dial begins to open a session.
func (p *Endpoint) Dial(addr string) (*erpc.Session, error) {
	s, err := p.Rpc.CreateSession(addr)
	if err == nil {
		p.asked++
	}
	return s, err
}

// Wait runs the event loop until all sessions are open. Errors: those of the sessions, the
// context's.
func (p *Endpoint) Wait(ctx context.Context) error {
	stop := context.AfterFunc(ctx, p.Rpc.Wake)
	defer stop()
	err := p.Rpc.Run(func() bool {
		return p.Err != nil || p.connected == p.asked || ctx.Err() != nil
	})
	return errors.Join(err, p.Err, ctx.Err())
}

// Close ends the sessions and the loop.
func (p *Endpoint) Close() error { return errors.Join(p.Rpc.Close(), p.nexus.Close()) }

// Echo serves requests of a type on a transport, which it owns: an RPC with nothing behind it. It
// calls ready, and runs the event loop until the function that this returns does.
func Echo(tr transport.Transport, typ uint8, ready func(*erpc.Rpc) (until func() bool)) error {
	nexus, err := erpc.NewNexus(erpc.Config{NoHugepages: true, Workers: 1})
	if err != nil {
		return errors.Join(err, tr.Close())
	}
	err = nexus.Register(typ, erpc.Dispatch, func(h erpc.ReqHandle) {
		_ = h.RespondBytes(h.Data()) // the client gets its errors
	})
	if err != nil {
		return errors.Join(err, tr.Close(), nexus.Close())
	}
	rpc, err := nexus.NewRpc(tr)
	if err != nil {
		return errors.Join(err, nexus.Close())
	}
	err = rpc.Run(ready(rpc))
	return errors.Join(err, rpc.Close(), nexus.Close())
}
