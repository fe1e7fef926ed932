package rfplab

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/userspace-rpc/erpc/rfp"
	"github.com/userspace-rpc/erpc/rfp/jakiro/bypass"
	"github.com/userspace-rpc/erpc/rfp/onesided"
	"github.com/userspace-rpc/erpc/rfp/onesided/model"
)

// BypassResult has the measurements of clients that read a table by themselves.
type BypassResult struct {
	Rate  float64 // GETs per second
	Reads float64 // per GET
}

// bypassLab is such a run: one table, and clients with so many GETs under way.
type bypassLab struct {
	net   *model.Network
	keys  int
	ended int
	reads func() uint64
	err   error
}

// Bypass measures GETs of a table that is full to 3 quarters.
func Bypass(p model.Params, clients, window, calls int, seed uint64) (res BypassResult, err error) {
	layout := bypass.Layout{Buckets: 2048, Item: 48}
	g := rfp.Geometry{Slots: 1, Request: 128, Response: 128}
	l := &bypassLab{net: model.New(p, seed)}
	server := l.net.Machine(p.Server)
	specs := layout.Specs()
	index, heap := onesided.Memory(specs[0].Size), onesided.Memory(specs[1].Size)
	table, err := bypass.NewTable(layout, index, heap)
	if err != nil {
		return res, err
	}
	for table.Put(bypassKey(l.keys), value(nil, bypassKey(l.keys), 32)) == nil {
		l.keys++
	}
	srv, err := rfp.NewServer(rfp.ServerConfig{Geometry: g})
	if err != nil {
		return res, err
	}
	bypass.Attach(srv, table)
	th := server.Thread(func(model.Time) time.Duration { srv.Poll(8); return 0 })
	var all []*bypass.Client
	machines := make([]*model.Machine, 7)
	for i := range machines {
		machines[i] = l.net.Machine(p.Client)
	}
	for i := range clients {
		m := machines[i%len(machines)]
		x, y, err := model.Connect(m, server, layout.ClientSpecs(window), specs)
		if err != nil {
			return res, err
		}
		y.Share(0, index)
		y.Share(1, heap)
		cx, cy, err := model.Connect(m, server, rfp.ClientSpecs(g), rfp.ServerSpecs(g))
		if err == nil {
			err = srv.Serve(cy)
		}
		if err != nil {
			return res, err
		}
		cy.Bind(th)
		calls, err := rfp.NewClient(cx, rfp.Config{Geometry: g})
		if err != nil {
			return res, err
		}
		k, err := bypass.NewClient(layout, x, calls, window)
		if err != nil {
			return res, err
		}
		t := m.Thread(l.step(k, rand.New(rand.NewPCG(seed, uint64(i)))))
		x.Bind(t)
		cx.Bind(t)
		t.Wake()
		all = append(all, k)
	}
	l.reads = func() (n uint64) {
		for _, k := range all {
			n += k.Stats().Reads
		}
		return n
	}
	return l.measure(calls)
}

// bypassKey is key i.
func bypassKey(i int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(i))
	return binary.LittleEndian.AppendUint64(b, mix(uint64(i)))
}

// step keeps a client's window full, and checks each answer.
func (l *bypassLab) step(k *bypass.Client, rng *rand.Rand) func(now model.Time) time.Duration {
	done := func(tag uint64, got []byte, found bool, err error) {
		l.ended++
		if err == nil && (!found || !bytes.Equal(got, value(nil, bypassKey(int(tag)), 32))) {
			err = fmt.Errorf("rfplab: key %d: a wrong answer of %d bytes, %v", tag, len(got), found)
		}
		if err != nil && l.err == nil {
			l.err = err
		}
	}
	return func(now model.Time) time.Duration {
		k.Poll(now)
		for l.err == nil && k.Ready() {
			i := rng.IntN(l.keys)
			if err := k.Get(bypassKey(i), uint64(i), done); err != nil {
				l.err = err
			}
		}
		k.Poll(now)
		if k.Err() != nil && l.err == nil {
			l.err = k.Err()
		}
		return 0
	}
}

func (l *bypassLab) measure(calls int) (res BypassResult, err error) {
	for l.ended < calls/5 && l.err == nil && l.net.Step() {
	}
	begin, first, reads := l.net.Now(), l.ended, l.reads()
	for l.ended-first < calls && l.err == nil && l.net.Step() {
	}
	if l.err == nil && l.ended-first < calls {
		l.err = fmt.Errorf("rfplab: the run stands still after %d GETs", l.ended)
	}
	n := float64(l.ended - first)
	res = BypassResult{n / l.net.Now().Sub(begin).Seconds(), float64(l.reads()-reads) / n}
	return res, l.err
}
