package rfplab

import (
	"time"

	"github.com/userspace-rpc/erpc/rfp/onesided"
	"github.com/userspace-rpc/erpc/rfp/onesided/model"
)

// Verb is an operation of an adapter.
type Verb int

// Verbs.
const (
	READ Verb = iota
	WRITE
	SEND // a datagram
)

// Verbs describes operations between one server and client machines that do nothing else.
type Verbs struct {
	Params   model.Params
	Verb     Verb
	Out      bool // the server issues them; else the clients do
	Bytes    int
	Machines int // of clients
	Links    int // of each of them, each with a thread of its own; default 1
	Window   int // operations of a link under way
}

// Rate measures how many operations per second the server's adapter serves or issues.
func (v Verbs) Rate() (float64, error) {
	net := model.New(v.Params, 1)
	server := net.Machine(v.Params.Server)
	for range v.Machines {
		m := net.Machine(v.Params.Client)
		for range max(1, v.Links) {
			from, to := m, server
			if v.Out {
				from, to = server, m
			}
			if err := v.issue(from, to); err != nil {
				return 0, err
			}
		}
	}
	return rate(net, func() uint64 {
		if v.Out {
			return server.Stats().Out
		}
		return server.Stats().In
	}), nil
}

// issue keeps a window of operations of a new link under way.
func (v Verbs) issue(from, to *model.Machine) error {
	size := (v.Bytes + 7) &^ 7
	x, _, err := model.Connect(from, to, []onesided.Spec{{Size: size}},
		[]onesided.Spec{{Size: size, Access: onesided.PeerReads | onesided.PeerWrites}})
	if err != nil {
		return err
	}
	if v.Verb == SEND {
		x.Datagrams()
	}
	var b onesided.Batch
	done := make([]onesided.Completion, v.Window)
	under := 0
	th := from.Thread(func(model.Time) time.Duration {
		under -= x.Poll(done)
		b.Reset()
		for ; under < v.Window; under++ {
			if v.Verb == READ {
				b.Read(0, 0, 0, 0, v.Bytes, 0)
			} else {
				b.Write(0, 0, 0, 0, v.Bytes, 0, true)
			}
		}
		if len(b.Ops) > 0 {
			_ = x.Post(&b) // the window is far below what a link takes
		}
		return 0
	})
	x.Bind(th)
	th.Wake()
	return nil
}

// rate is how much a counter grows in a second.
func rate(net *model.Network, count func() uint64) float64 {
	net.RunUntil(net.Now().Add(100 * time.Microsecond))
	before, begin := count(), net.Now()
	net.RunUntil(begin.Add(300 * time.Microsecond))
	return float64(count()-before) / net.Now().Sub(begin).Seconds()
}
