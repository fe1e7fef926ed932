package verbs

import (
	"syscall"
	"unsafe"
)

// MR is a registered memory region.
type MR struct {
	h    handle
	base uint64
	size uint64
	lkey uint32
	rkey uint32
}

// Register pins mem and lets the device use it. mem must not be of the Go heap, and stay
// mapped until Close. Safe from any goroutine. ENOMEM often means the limit on
// locked memory (ulimit -l).
func (p *PD) Register(mem []byte, access Access) (*MR, error) {
	if len(mem) == 0 {
		return nil, &Error{Op: "ibv_reg_mr", Err: syscall.EINVAL}
	}
	m := &MR{base: Address(mem), size: uint64(len(mem))}
	var rc int
	m.h, m.lkey, m.rkey, rc = sysRegMR(p.h, m.base, m.size, access)
	if err := failed("ibv_reg_mr", rc); err != nil {
		return nil, err
	}
	return m, nil
}

// Address returns the address of mem's first byte as work requests hold it; 0 if it is empty.
func Address(mem []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))) }

// Base returns the address of the region's first byte.
func (m *MR) Base() uint64 { return m.base }

// LKey returns the key for local use, in a Piece.
func (m *MR) LKey() uint32 { return m.lkey }

// RKey returns the key that a peer needs for WRITE and READ.
func (m *MR) RKey() uint32 { return m.rkey }

// Close unpins the memory. No work request may refer to it any more.
func (m *MR) Close() error { return failed("ibv_dereg_mr", sysDeregMR(m.h)) }

// Channel is a completion channel: a descriptor to sleep on.
type Channel struct {
	h  handle
	fd int
}

// CreateChannel makes a completion channel, whose descriptor does not block.
func (d *Device) CreateChannel() (*Channel, error) {
	h, fd, rc := sysCreateChannel(d.h)
	if err := failed("ibv_create_comp_channel", rc); err != nil {
		return nil, err
	}
	if err := setNonblock(fd); err != nil {
		sysDestroyChannel(h)
		return nil, &Error{Op: "fcntl", Err: err}
	}
	return &Channel{h, fd}, nil
}

// FD returns the descriptor, readable while there is an event of an armed completion
// queue. It belongs to the channel.
func (c *Channel) FD() int { return c.fd }

// Drain takes the events that wait and returns how many.
func (c *Channel) Drain() int { return sysDrainChannel(c.h) }

// Close frees the channel.
func (c *Channel) Close() error {
	return failed("ibv_destroy_comp_channel", sysDestroyChannel(c.h))
}

// CQ is a completion queue.
type CQ struct {
	h     handle
	depth int
}

// CreateCQ makes a completion queue for at least depth completions. ch may be nil.
func (d *Device) CreateCQ(depth int, ch *Channel) (*CQ, error) {
	var chh handle
	if ch != nil {
		chh = ch.h
	}
	h, got, rc := sysCreateCQ(d.h, depth, chh)
	if err := failed("ibv_create_cq", rc); err != nil {
		return nil, err
	}
	return &CQ{h, got}, nil
}

// Depth returns how many completions the queue holds.
func (c *CQ) Depth() int { return c.depth }

// Arm asks for one event in the channel with the next completion. One that arrived
// before makes no event, so poll once more after arming.
func (c *CQ) Arm() error { return failed("ibv_req_notify_cq", sysArmCQ(c.h)) }

// Poll takes up to len(wc) completions.
func (c *CQ) Poll(wc []WC) (int, error) {
	if len(wc) == 0 {
		return 0, nil
	}
	n := sysPollCQ(c.h, &wc[0], len(wc))
	if n < 0 {
		return 0, failed("ibv_poll_cq", n)
	}
	return n, nil
}

// Close frees the queue.
func (c *CQ) Close() error { return failed("ibv_destroy_cq", sysDestroyCQ(c.h)) }

// QPConfig describes a queue pair to make. CreateQP writes back what was granted.
type QPConfig struct {
	Type      QPType
	SendCQ    *CQ
	RecvCQ    *CQ
	MaxSend   int // work requests of the send queue
	MaxRecv   int
	MaxInline int  // bytes of a SEND with Inline
	SignalAll bool // every send work request completes with a WC
}

// QP is a queue pair. A new one must be taken through its states with Modify.
type QP struct {
	h    handle
	num  uint32
	kind QPType
	ud   int
}

// CreateQP makes a queue pair.
func (p *PD) CreateQP(cfg *QPConfig) (*QP, error) {
	h, num, rc := sysCreateQP(p.h, cfg.SendCQ.h, cfg.RecvCQ.h, cfg)
	if err := failed("ibv_create_qp", rc); err != nil {
		return nil, err
	}
	q := &QP{h: h, num: num, kind: cfg.Type}
	if cfg.Type == UD {
		q.ud = 1
	}
	return q, nil
}

// Num returns the queue pair's number, 24 bits.
func (q *QP) Num() uint32 { return q.num }

// Modify takes the queue pair to another state.
func (q *QP) Modify(a QPAttr) error { return failed("ibv_modify_qp", sysModifyQP(q.h, q.kind, &a)) }

// PostSend posts wr in order and returns how many were taken. Fewer than all come with an
// error; ENOMEM means that the send queue is full.
func (q *QP) PostSend(wr []SendWR) (int, error) {
	if len(wr) == 0 {
		return 0, nil
	}
	n, rc := sysPostSend(q.h, q.ud, &wr[0], len(wr))
	return n, failed("ibv_post_send", rc)
}

// PostRecv posts wr in order and returns how many were taken, as PostSend.
func (q *QP) PostRecv(wr []RecvWR) (int, error) {
	if len(wr) == 0 {
		return 0, nil
	}
	n, rc := sysPostRecv(q.h, &wr[0], len(wr))
	return n, failed("ibv_post_recv", rc)
}

// Close frees the queue pair. Its work requests are dropped without completions.
func (q *QP) Close() error { return failed("ibv_destroy_qp", sysDestroyQP(q.h)) }

// StatusText returns what the library calls the status of a completion.
func StatusText(status uint32) string { return sysStatus(status) }
