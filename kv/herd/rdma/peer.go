package rdma

import (
	"errors"
	"fmt"

	"github.com/userspace-rpc/erpc/internal/verbs"
	"github.com/userspace-rpc/erpc/kv/herd"
)

// peer is a client at the server.
type peer struct {
	number int
	hello  hello
	offer  offer
	own    device // what is the client's alone
	chunk  []byte // in which it writes; nil for design send
	queue  *queue // that it is connected to; nil for design send
	// For answers:
	ah   uint64
	lkey uint32         // of its answers
	list []verbs.SendWR // design write: those of a sweep
}

// admit makes what a client needs, and has the loops serve it.
func (s *Server) admit(h *hello) (p *peer, err error) {
	site := &s.dev.site
	gid, err := h.check(site)
	if err != nil {
		return nil, err
	}
	g := s.cfg.Geometry
	if h.Design == Write && g.Partitions > 1 {
		return nil, fmt.Errorf("%w: write is for one partition, and here are %d", ErrDesign, g.Partitions)
	}
	if mtu := min(h.MTU, site.Attr.ActiveMTU); g.Slot > int(mtu) {
		return nil, fmt.Errorf("%w: slots of %d bytes, packets of %d", ErrMismatch, g.Slot, mtu)
	}
	p = &peer{hello: *h, own: device{dev: s.dev.dev}}
	if p.number, err = s.number(); err != nil {
		return nil, err
	}
	if err = s.equip(p, gid); err == nil {
		err = s.join(p)
	}
	if err != nil {
		s.forget(p)
		return nil, err
	}
	return p, nil
}

// number takes a client's number.
func (s *Server) number() (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, used := range s.numbers {
		if !used && !s.closed {
			s.numbers[i] = true
			return i, nil
		}
	}
	return 0, ErrFull
}

// equip makes a client's memory and queue pair.
func (s *Server) equip(p *peer, gid verbs.GID) (err error) {
	g, h, d := s.cfg.Geometry, &p.hello, &p.own
	p.offer = offer{place: placeOf(&s.dev.site), Number: p.number, Partitions: g.Partitions,
		Window: g.Window, Slot: g.Slot}
	for _, l := range s.loops {
		p.offer.UD = append(p.offer.UD, l.ud.qp.Num())
	}
	way := s.dev.site.Way(gid, h.LID)
	if h.Design != Write {
		p.offer.QKey, p.lkey = s.qkey, s.answers.LKey()
		if p.ah, err = s.handle(gid, way); err != nil {
			return err
		}
	}
	if h.Design == Send {
		return nil
	}
	pd, err := d.dev.AllocPD()
	if err != nil {
		return err
	}
	d.keep(pd)
	chunk, mr, err := d.memory(pd, g.Chunk(), verbs.LocalWrite|verbs.RemoteWrite)
	if err != nil {
		return err
	}
	p.chunk, p.offer.Base, p.offer.RKey = chunk, mr.Base(), mr.RKey()
	kind := verbs.UC
	if h.Design == Write {
		kind = verbs.RC
		own, err := pd.Register(s.answersOf(p.number), verbs.LocalWrite)
		if err != nil {
			return err
		}
		d.keep(own)
		p.lkey = own.LKey()
	}
	if p.queue, err = d.newQueue(pd, kind, 1); err != nil {
		return err
	}
	p.offer.QPN, p.offer.PSN = p.queue.qp.Num(), random(24)
	return p.queue.qp.Connect(&verbs.Link{To: way, QPN: h.QPN, PSN: p.offer.PSN, PeerPSN: h.PSN,
		MTU: min(h.MTU, s.dev.site.Attr.ActiveMTU), Access: verbs.RemoteWrite})
}

// answersOf returns the memory of a client's answers.
func (s *Server) answersOf(number int) []byte {
	n := s.cfg.Geometry.Chunk()
	return s.memory[number*n : (number+1)*n : (number+1)*n]
}

// handle returns the address handle that leads to a GID.
func (s *Server) handle(gid verbs.GID, way verbs.AHAttr) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.handles[gid]
	if h == nil {
		if len(s.handles) >= maxHandles {
			return 0, fmt.Errorf("%w: clients came from %d addresses", ErrFull, maxHandles)
		}
		var err error
		if h, err = s.dev.pd.CreateAH(way); err != nil {
			return 0, err
		}
		s.handles[gid] = h
	}
	return h.Handle(), nil
}

// join has all loops serve a client.
func (s *Server) join(p *peer) (err error) {
	for _, l := range s.loops {
		e := l.do(func() { err = l.join(p) })
		if err = errors.Join(e, err); err != nil {
			return err
		}
	}
	return nil
}

// forget has no loop serve a client, and frees what it has.
func (s *Server) forget(p *peer) {
	for _, l := range s.loops {
		_ = l.do(func() { l.leave(p) }) // a loop that has ended serves nobody
	}
	if err := p.own.close(); err != nil {
		s.cfg.Logger.Error("a client's memory", "error", err)
	}
	s.mu.Lock()
	s.numbers[p.number] = false
	s.mu.Unlock()
}

// source reports whether a datagram of design send is the client's.
func (p *peer) source(wc *verbs.WC) bool {
	return p.hello.Design == Send && wc.SrcQP == p.hello.UD
}

// request is the work request of an answer.
func (p *peer) request(s *Server, a *herd.Answer) verbs.SendWR {
	wr := verbs.SendWR{Num: 1, Pieces: [2]verbs.Piece{{Addr: verbs.Address(a.Frame),
		Len: uint32(len(a.Frame)), LKey: p.lkey}}}
	if p.hello.Design == Write {
		g := s.cfg.Geometry
		wr.Opcode, wr.RKey = verbs.OpWrite, p.hello.RKey
		wr.Remote = p.hello.Base + uint64((a.Slot+1)*g.Slot-len(a.Frame))
		return wr
	}
	wr.Opcode, wr.Imm = verbs.OpSendImm, uint32(a.Slot)
	wr.AH, wr.QPN, wr.QKey = p.ah, p.hello.UD, p.hello.QKey
	return wr
}
