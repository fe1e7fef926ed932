package ud

import (
	"errors"
	"syscall"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/internal/verbs"
	"github.com/userspace-rpc/erpc/transport"
)

const (
	txBlock = 64 // most requests of a call
	// flushFor is how long a flush waits for the adapter. Then the queue pair is reset,
	// which takes all requests off it as well.
	flushFor = time.Second
)

// transmitter turns packets into send requests. Requests are counted from 1 on; that of
// number n uses slot n modulo the ring.
type transmitter struct {
	h       *hardware
	peers   *peers
	meet    *meeting
	regions regions
	copies  bool // never read the application's memory
	mtu     int
	mask    uint64
	every   uint64 // requests from one signaled one to the next

	posted uint64 // requests posted
	done   uint64 // requests known to be complete
	direct uint64 // the last request that reads the application's memory
	self   uint64 // address handle of the own queue pair, for flush

	packets, bytes, dropped, stalls, calls uint64

	wc    [16]verbs.WC
	wr    [txBlock]verbs.SendWR
	sizes [txBlock]int // bytes of each request's packet
	// index of the first item after those before; what lies between cannot be sent
	from    [txBlock + 1]int
	flushWR [1]verbs.SendWR
}

func (t *transmitter) init(h *hardware, p *peers, m *meeting, cfg *Config) {
	t.h, t.peers, t.meet, t.mtu, t.copies = h, p, m, cfg.MTU, cfg.Copy
	t.mask, t.every = uint64(h.tx.slots-1), uint64(max(1, h.tx.slots/4))
	t.regions.pd = h.pd
}

// burst sends items and returns how many it took. broken says that the queue pair is in
// an error state.
func (t *transmitter) burst(items []transport.TxItem) (taken int, broken bool, err error) {
	for taken < len(items) {
		room := t.room(min(len(items)-taken, txBlock))
		if room <= 0 {
			if room < 0 {
				return taken, true, nil
			}
			t.stalls++
			return taken, false, nil
		}
		used, end := t.build(items[taken:], room)
		n := 0
		if used > 0 {
			n, err = t.h.qp.PostSend(t.wr[:used])
			t.calls++
			t.posted += uint64(n)
		}
		for i := range n {
			t.packets++
			t.bytes += uint64(t.sizes[i])
		}
		if n < used {
			end = t.from[n]
		}
		t.dropped += uint64(end - n)
		taken += end
		if n < used || err != nil {
			if errors.Is(err, syscall.ENOMEM) { // full after all
				t.stalls++
				return taken, false, nil
			}
			return taken, true, nil
		}
	}
	return taken, false, nil
}

// room returns how many requests, at least 1 and at most want, can be posted; 0 if the queue is
// full, and -1 if the queue pair is in an error state.
func (t *transmitter) room(want int) int {
	free := t.h.tx.slots - int(t.posted-t.done)
	if free < want || free <= t.h.tx.slots/2 {
		if !t.reap() {
			return -1
		}
		free = t.h.tx.slots - int(t.posted-t.done)
	}
	return min(free, want)
}

// reap takes completions. It reports false if one is an error.
func (t *transmitter) reap() (ok bool) {
	n, err := t.h.sendCQ.Poll(t.wc[:])
	ok = err == nil
	for i := range t.wc[:n] {
		wc := &t.wc[i]
		if wc.Status != verbs.StatusOK {
			ok = false
			continue
		}
		t.done = max(t.done, wc.ID)
	}
	return ok
}

// build makes up to room requests of items and returns how many, and how many items
// it dealt with.
func (t *transmitter) build(items []transport.TxItem, room int) (used, end int) {
	i, now := 0, monotime.Time(0)
	t.from[0] = 0
	for used < room && i < len(items) {
		it := &items[i]
		i++
		p := t.peers.to(&it.Dst)
		if p == nil && it.Dst.Port != 0 || p != nil && p.sent(&now) {
			t.meet.ask(it.Dst, cardQuery)
		}
		size := len(it.Head) + len(it.Data)
		if p == nil || size > p.mtu {
			continue
		}
		seq := t.posted + uint64(used) + 1
		wr := &t.wr[used]
		wr.ID, wr.AH, wr.QPN, wr.QKey = seq, p.ah, p.qpn, p.qkey
		wr.Opcode, wr.Flags = verbs.OpSend, 0
		if seq%t.every == 0 {
			wr.Flags = verbs.Signaled
		}
		if t.pieces(wr, it, size, int(seq&t.mask)) {
			t.direct = seq
		}
		t.sizes[used] = size
		used++
		t.from[used] = i
	}
	return used, i
}

// pieces tells wr where the packet is: in its slot, or where it lies, which it reports.
func (t *transmitter) pieces(wr *verbs.SendWR, it *transport.TxItem, size, slot int) (direct bool) {
	at := slot * t.h.tx.stride
	base, lkey := t.h.tx.mr.Base()+uint64(at), t.h.tx.mr.LKey()
	wr.Num = 1
	if size > t.h.inline && len(it.Data) > 0 && !t.copies {
		if key, ok := t.regions.find(verbs.Address(it.Data), len(it.Data)); ok {
			wr.Pieces[0] = verbs.Piece{Addr: base, Len: uint32(copy(t.h.tx.mem[at:], it.Head)), LKey: lkey}
			data := verbs.Piece{Addr: verbs.Address(it.Data), Len: uint32(len(it.Data)), LKey: key}
			if len(it.Head) == 0 {
				wr.Pieces[0] = data
			} else {
				wr.Pieces[1], wr.Num = data, 2
			}
			return true
		}
	}
	mem := t.h.tx.mem[at:]
	n := copy(mem, it.Head)
	copy(mem[n:], it.Data)
	wr.Pieces[0] = verbs.Piece{Addr: base, Len: uint32(size), LKey: lkey}
	if size <= t.h.inline {
		wr.Flags |= verbs.Inline
	}
	return false
}

// flush returns when the adapter refers to no buffer. It reports false if the queue pair
// is in an error state, or does not move.
func (t *transmitter) flush() (ok bool) {
	if t.posted == t.done {
		return true
	}
	end := monotime.Now().Add(flushFor)
	for t.room(1) == 0 {
		if monotime.Now() > end {
			return false
		}
	}
	// All before a signaled request are complete when it is. This one goes to our own queue pair,
	// without bytes, and is dropped there.
	t.flushWR[0] = verbs.SendWR{ID: t.posted + 1, AH: t.self, QPN: t.h.qp.Num(), QKey: t.h.qkey,
		Opcode: verbs.OpSend,
		Flags:  verbs.Signaled}
	if n, _ := t.h.qp.PostSend(t.flushWR[:]); n != 1 {
		return false
	}
	t.posted++
	t.calls++
	for t.done < t.posted {
		if !t.reap() || monotime.Now() > end {
			return false
		}
	}
	return true
}
