package ud

import (
	"github.com/userspace-rpc/erpc/internal/verbs"
	"github.com/userspace-rpc/erpc/transport"
)

// Raw is a queue pair used as barely as a program can: SEND and RECV in bursts, prepared
// requests to one peer, one poll for each burst, no look at who sent what. It is the yardstick in
// measurements, not for use: everything goes to the peer that was resolved or heard last, of
// large packets only the size, and whatever arrives is taken for the peer's.
type Raw struct {
	*Conn
	wr   []verbs.SendWR // one for each slot
	peer *peer
}

// ListenRaw opens an endpoint as Listen does.
func ListenRaw(addr string, cfg Config) (*Raw, error) {
	c, err := Listen(addr, cfg)
	if err != nil {
		return nil, err
	}
	r := &Raw{Conn: c, wr: make([]verbs.SendWR, c.h.tx.slots)}
	for i := range r.wr {
		w := &r.wr[i]
		w.Opcode, w.Num = verbs.OpSend, 1
		w.Pieces[0] = verbs.Piece{Addr: c.h.tx.mr.Base() + uint64(i*c.h.tx.stride),
			LKey: c.h.tx.mr.LKey()}
		w.ID = uint64(i)
		if (i+1)%int(c.tx.every) == 0 {
			w.Flags = verbs.Signaled
		}
	}
	return r, nil
}

// aim makes p the peer.
func (r *Raw) aim(p *peer) {
	r.peer = p
	for i := range r.wr {
		r.wr[i].AH, r.wr[i].QPN, r.wr[i].QKey = p.ah, p.qpn, p.qkey
	}
}

// Resolve meets the endpoint at text, and sends to it from now on. Only for the using
// goroutine.
func (r *Raw) Resolve(text string) (transport.Addr, error) {
	a, err := r.Conn.Resolve(text)
	if err == nil {
		r.Conn.welcome()
		r.aim(r.Conn.peers.byAddr[a])
	}
	return a, err
}

// TxBurst sends as many packets to the peer.
func (r *Raw) TxBurst(items []transport.TxItem) (int, error) {
	t, h := &r.Conn.tx, r.Conn.h
	slot := int(t.posted & t.mask)
	n := min(len(items), len(r.wr)-slot)
	if free := len(r.wr) - int(t.posted-t.done); free < n || free < len(r.wr)/2 {
		got, err := h.sendCQ.Poll(t.wc[:])
		if err != nil {
			return 0, err
		}
		t.done += uint64(got) * t.every
		n = min(n, len(r.wr)-int(t.posted-t.done))
	}
	for i := range n {
		it, w := &items[i], &r.wr[slot+i]
		size := len(it.Head) + len(it.Data)
		w.Pieces[0].Len = uint32(size)
		w.Flags &^= verbs.Inline
		if size <= h.inline {
			w.Flags |= verbs.Inline
			at := (slot + i) * h.tx.stride
			copy(h.tx.mem[at:], it.Head)
		}
	}
	n, err := h.qp.PostSend(r.wr[slot : slot+n])
	t.posted += uint64(n)
	t.calls++
	t.packets += uint64(n)
	return n, err
}

// RxBurst takes packets, which are all said to be the peer's.
func (r *Raw) RxBurst(pkts []transport.RxPacket) (int, error) {
	x, h := &r.Conn.rx, r.Conn.h
	if len(x.free) >= x.batch {
		if err := x.fill(); err != nil {
			return 0, err
		}
	}
	n, err := h.recvCQ.Poll(x.wc[:min(len(pkts), x.most)])
	if n > 0 && r.Conn.meet.some.Load() {
		met := r.Conn.meet.collect()
		r.aim(met[len(met)-1])
	}
	for i := range n {
		wc := &x.wc[i]
		x.free = append(x.free, uint32(wc.ID))
		at := int(wc.ID)*h.rx.stride + rxData
		pkts[i] = transport.RxPacket{Data: h.rx.mem[at : at+int(wc.Len)-grhSize], From: r.peer.addr}
	}
	x.packets += uint64(n)
	return n, err
}

// Flush does nothing: packets are copied, or nobody looks at them.
func (r *Raw) Flush() {}
