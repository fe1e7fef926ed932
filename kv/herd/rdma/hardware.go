package rdma

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"net/netip"
	"syscall"

	"github.com/userspace-rpc/erpc/internal/hugemem"
	"github.com/userspace-rpc/erpc/internal/verbs"
)

const (
	sendDepth   = 256 // work requests of a send queue
	signalEvery = 32  // one in so many is signaled
	wantInline  = 256 // bytes
	grhSize     = 40
	bufferLead  = 64 // a receive buffer: the GRH ends here, so that the datagram is aligned
)

// device is an opened device, and what is made of it, freed in the reverse order.
type device struct {
	site verbs.Site
	dev  *verbs.Device
	pd   *verbs.PD
	made []func() error
}

// openDevice opens the device that has host as its address; see verbs.FindSite.
func openDevice(name string, host netip.Addr) (*device, error) {
	site, err := verbs.FindSite(name, host)
	if errors.Is(err, syscall.ENODEV) && host.IsValid() {
		site, err = verbs.FindSite(name, netip.Addr{})
	}
	if err != nil {
		return nil, err
	}
	d := &device{site: site}
	if d.dev, err = verbs.Open(site.Device); err != nil {
		return nil, err
	}
	d.keep(d.dev)
	if d.pd, err = d.dev.AllocPD(); err != nil {
		return nil, errors.Join(err, d.close())
	}
	d.keep(d.pd)
	return d, nil
}

// keep has c closed by close.
func (d *device) keep(c interface{ Close() error }) { d.made = append(d.made, c.Close) }

func (d *device) close() (err error) {
	for i := len(d.made) - 1; i >= 0; i-- {
		err = errors.Join(err, d.made[i]())
	}
	d.made = nil
	return err
}

// memory returns registered memory, and its local and remote keys.
func (d *device) memory(pd *verbs.PD, size int, access verbs.Access) ([]byte, *verbs.MR, error) {
	mem, err := hugemem.AllocPlain(size)
	if err != nil {
		return nil, nil, err
	}
	mr, err := pd.Register(mem, access)
	if err != nil {
		return nil, nil, errors.Join(err, hugemem.Free(mem))
	}
	d.made = append(d.made, func() error { return errors.Join(mr.Close(), hugemem.Free(mem)) })
	return mem, mr, nil
}

// queue is a queue pair with its completion queues, and an account of its send queue.
type queue struct {
	qp     *verbs.QP
	send   *verbs.CQ
	recv   *verbs.CQ
	inline int
	posted uint64
	done   uint64 // of those posted, off the queue
	status uint32 // of a completion that failed; the queue pair is in an error state then
	wc     [16]verbs.WC
}

// newQueue makes a queue pair in a domain.
func (d *device) newQueue(pd *verbs.PD, kind verbs.QPType, recvs int) (q *queue, err error) {
	q = new(queue)
	if q.send, err = d.dev.CreateCQ(sendDepth, nil); err != nil {
		return nil, err
	}
	d.keep(q.send)
	if q.recv, err = d.dev.CreateCQ(recvs, nil); err != nil {
		return nil, err
	}
	d.keep(q.recv)
	for inline := wantInline; ; inline /= 2 {
		cfg := verbs.QPConfig{Type: kind, SendCQ: q.send, RecvCQ: q.recv, MaxSend: sendDepth,
			MaxRecv: recvs, MaxInline: inline}
		if q.qp, err = pd.CreateQP(&cfg); err == nil {
			q.inline = min(inline, cfg.MaxInline)
			d.keep(q.qp)
			return q, nil
		}
		if inline == 0 || !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOMEM) {
			return nil, err
		}
	}
}

// room returns how many work requests may be posted.
func (q *queue) room() int {
	if free := sendDepth - int(q.posted-q.done); free >= sendDepth/2 {
		return free
	}
	q.reap()
	return sendDepth - int(q.posted-q.done)
}

// reap takes completions of the send queue.
func (q *queue) reap() {
	n, err := q.send.Poll(q.wc[:])
	if err != nil {
		q.status = verbs.StatusFlushed
		return
	}
	for _, wc := range q.wc[:n] {
		if wc.Status != verbs.StatusOK {
			if q.status == verbs.StatusOK {
				q.status = wc.Status
			}
			continue
		}
		q.done = max(q.done, wc.ID)
	}
}

// post posts a list as one, as far as there is room, and returns how many it took.
func (q *queue) post(list []verbs.SendWR) (int, error) {
	list = list[:min(len(list), q.room())]
	for i := range list {
		wr := &list[i]
		if at := q.posted + uint64(i) + 1; at%signalEvery == 0 {
			wr.Flags |= verbs.Signaled
			wr.ID = at
		}
		if wr.Pieces[0].Len <= uint32(q.inline) {
			wr.Flags |= verbs.Inline
		}
	}
	n, err := q.qp.PostSend(list)
	q.posted += uint64(n)
	if errors.Is(err, syscall.ENOMEM) {
		err = nil
	}
	return n, err
}

// reopen takes a UD queue pair out of an error state. The contents of its queues are lost.
func (q *queue) reopen(port int, qkey uint32) error {
	if err := q.qp.Modify(verbs.QPAttr{State: verbs.StateReset}); err != nil {
		return err
	}
	for n := len(q.wc); n == len(q.wc); { // completions of before
		var err error
		if n, err = q.send.Poll(q.wc[:]); err != nil {
			return err
		}
	}
	q.done, q.status = q.posted, verbs.StatusOK
	return q.qp.Open(port, qkey)
}

// ring is the receive buffers of a UD queue pair.
type ring struct {
	q    *queue
	mem  []byte
	mr   *verbs.MR
	size int // bytes of a buffer
	wr   []verbs.RecvWR
	wc   []verbs.WC
}

// newRing makes and posts count buffers for datagrams of up to size bytes.
func (d *device) newRing(q *queue, count, size int) (r *ring, err error) {
	r = &ring{q: q, size: bufferLead + size, wr: make([]verbs.RecvWR, 0, count),
		wc: make([]verbs.WC, 32)}
	if r.mem, r.mr, err = d.memory(d.pd, count*r.size, verbs.LocalWrite); err != nil {
		return nil, err
	}
	r.postAll(count)
	return r, r.flush()
}

func (r *ring) postAll(count int) {
	for i := range count {
		r.free(uint64(i))
	}
}

// free has a buffer posted again with the next flush.
func (r *ring) free(i uint64) {
	r.wr = append(r.wr, verbs.RecvWR{ID: i, Piece: verbs.Piece{LKey: r.mr.LKey(),
		Addr: r.mr.Base() + i*uint64(r.size) + bufferLead - grhSize,
		Len:  uint32(r.size - bufferLead + grhSize)}})
}

// flush posts the free buffers as one list.
func (r *ring) flush() error {
	if len(r.wr) == 0 {
		return nil
	}
	_, err := r.q.qp.PostRecv(r.wr)
	r.wr = r.wr[:0]
	return err
}

// poll returns completions of datagrams, at most most. Each buffer is to be freed.
func (r *ring) poll(most int) ([]verbs.WC, error) {
	n, err := r.q.recv.Poll(r.wc[:min(most, len(r.wc))])
	return r.wc[:n], err
}

// frame returns the datagram of a completion, nil if that failed.
func (r *ring) frame(wc *verbs.WC) []byte {
	if wc.Status != verbs.StatusOK || wc.Len < grhSize || int(wc.Len) > r.size-bufferLead+grhSize {
		return nil
	}
	at := int(wc.ID)*r.size + bufferLead
	return r.mem[at : at+int(wc.Len)-grhSize]
}

// random returns a number of so many bits that nobody can guess.
func random(bits uint) uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint32(b[:]) >> (32 - bits)
}
