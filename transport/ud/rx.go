package ud

import (
	"github.com/userspace-rpc/erpc/internal/verbs"
	"github.com/userspace-rpc/erpc/transport"
)

// rxBurst is the most completions polled at once.
const rxBurst = 64

// Rejects counts datagrams that reached the queue pair and were no packets for the library.
type Rejects struct {
	Foreign   uint64 // from somebody who was not introduced
	Malformed uint64 // without the header that names the sender, or of another kind
	Failed    uint64 // that the adapter could not store
}

// receiver takes datagrams from the ring of posted buffers.
type receiver struct {
	h     *hardware
	peers *peers
	v4    bool // RoCE v2 with IPv4
	ip    bool // Ethernet
	ecn   bool

	all []verbs.RecvWR // one for each slot
	// slots to post again: nobody uses their packets after the next RxBurst begins
	free   []uint32
	batch  int            // slots worth a call
	most   int            // completions polled at once
	repost []verbs.RecvWR // of a call

	wc   [rxBurst]verbs.WC
	next int // completion to look at next
	got  int // completions polled

	packets, bytes, calls uint64
	rejects               Rejects
}

func (r *receiver) init(h *hardware, p *peers, ecn bool) {
	r.h, r.peers, r.ecn = h, p, ecn && h.attr.LinkLayer == verbs.Ethernet
	k := kind(h.attr.LinkLayer, h.gid)
	r.ip, r.v4 = k != kindIB, k == kindRoCE2v4
	n := h.rx.slots
	r.all, r.free = make([]verbs.RecvWR, n), make([]uint32, 0, n)
	r.batch, r.most = max(1, min(rxBurst/2, n/8)), max(1, min(rxBurst, n/4))
	r.repost = make([]verbs.RecvWR, 0, n)
	for i := range r.all {
		r.all[i] = verbs.RecvWR{ID: uint64(i), Piece: verbs.Piece{
			Addr: h.rx.mr.Base() + uint64(i*h.rx.stride+rxData-grhSize),
			Len:  uint32(h.rx.stride - skew - rxData + grhSize),
			LKey: h.rx.mr.LKey(),
		}}
		r.free = append(r.free, uint32(i))
	}
}

// room returns how many packets can wait at least, whatever the caller of RxBurst holds.
func (r *receiver) room() int { return max(1, len(r.all)-r.most-r.batch) }

// pending reports whether datagrams were polled but not yet returned.
func (r *receiver) pending() bool { return r.next < r.got }

// release makes all slots free again, after a reset of the queue pair.
func (r *receiver) release() {
	r.next, r.got = 0, 0
	r.free = r.free[:0]
	for i := range r.all {
		r.free = append(r.free, uint32(i))
	}
}

// fill posts the free slots. They stay free if that fails; the queue pair is in an error state
// then.
func (r *receiver) fill() error {
	r.repost = r.repost[:0]
	for _, slot := range r.free {
		r.repost = append(r.repost, r.all[slot])
	}
	n, err := r.h.qp.PostRecv(r.repost)
	r.free = r.free[:copy(r.free, r.free[n:])]
	return err
}

// poll takes completions if there are none left.
func (r *receiver) poll(limit int) error {
	n, err := r.h.recvCQ.Poll(r.wc[:min(limit, r.most)])
	r.calls++
	r.next, r.got = 0, n
	return err
}

// prepare posts free slots and polls, unless there is something left. broken says that
// the queue pair is in an error state.
func (r *receiver) prepare(limit int) (broken bool, err error) {
	if len(r.free) >= r.batch {
		broken = r.fill() != nil
	}
	if !r.pending() {
		err = r.poll(limit)
	}
	return broken, err
}

// split fills in pkts with what prepare polled.
func (r *receiver) split(pkts []transport.RxPacket) (n int, broken bool) {
	for n < len(pkts) && r.next < r.got {
		wc := &r.wc[r.next]
		r.next++
		r.free = append(r.free, uint32(wc.ID))
		switch {
		case wc.Status == verbs.StatusOK:
			if r.take(wc, &pkts[n]) {
				n++
			}
		case wc.Status == verbs.StatusFlushed:
			broken = true
		default:
			broken = true
			r.rejects.Failed++
		}
	}
	r.packets += uint64(n)
	return n, broken
}

// take makes a packet of a datagram. It reports false if it is none for the library.
func (r *receiver) take(wc *verbs.WC, p *transport.RxPacket) bool {
	if wc.Len == grhSize {
		return false // without bytes: the end of a flush, and nothing that anybody would miss
	}
	if wc.Len < grhSize || int(wc.Len) > r.h.rx.stride || wc.ID >= uint64(len(r.all)) {
		r.rejects.Malformed++
		return false
	}
	at := int(wc.ID) * r.h.rx.stride
	grh := (*[grhSize]byte)(r.h.rx.mem[at+rxData-grhSize:])
	src := source{qpn: wc.SrcQP}
	ce := false
	switch {
	case !r.ip:
		src.lid = wc.SLID
	case wc.Flags&verbs.WCGRH == 0:
		r.rejects.Malformed++
		return false
	case r.v4:
		// IPv4 without options, and UDP.
		if grh[20] != 0x45 || grh[29] != 17 {
			r.rejects.Malformed++
			return false
		}
		src.gid[10], src.gid[11] = 0xFF, 0xFF
		copy(src.gid[12:], grh[32:36])
		ce = grh[21]&3 == 3
	default:
		copy(src.gid[:], grh[8:24])
		ce = grh[1]>>4&3 == 3 // traffic class: bits 4 to 11
	}
	from := r.peers.from(&src)
	if from == nil {
		r.rejects.Foreign++
		return false
	}
	end := at + rxData + int(wc.Len) - grhSize
	p.Data = r.h.rx.mem[at+rxData : end : end]
	p.From = from.addr
	p.CE, p.Shared = ce && r.ecn, false
	r.bytes += uint64(len(p.Data))
	return true
}
