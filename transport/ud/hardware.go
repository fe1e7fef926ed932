package ud

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"github.com/userspace-rpc/erpc/internal/hugemem"
	"github.com/userspace-rpc/erpc/internal/verbs"
)

// hardware holds the objects of an endpoint at its device.
type hardware struct {
	place
	dev    *verbs.Device
	info   verbs.DeviceAttr
	node   string
	pd     *verbs.PD
	ch     *verbs.Channel
	sendCQ *verbs.CQ
	recvCQ *verbs.CQ
	qp     *verbs.QP
	qkey   uint32
	inline int

	rx arena
	tx arena

	closers []func() error // in the order of making
}

// arena is registered memory.
type arena struct {
	mem    []byte
	mr     *verbs.MR
	slots  int
	stride int // bytes from one slot to the next
}

const (
	line = 64
	// skew shifts each slot against the one before, so that the first lines of all slots
	// do not compete for the same set of the cache.
	skew = line
	// rxData is where the packet begins in a slot, so that it is aligned; the GRH is in front.
	rxData = line
)

// slotSize returns the stride of slots with mtu bytes of packet.
func slotSize(front, mtu int) int { return front + (mtu+line-1)&^(line-1) + skew }

// open opens the device and makes the queue pair, ready to send and receive. cfg is
// complete but for RecvRing, and gets what was granted.
func open(p place, cfg *Config) (*hardware, error) {
	h := &hardware{place: p}
	if err := h.open(cfg); err != nil {
		_ = h.close() // err says more
		return nil, err
	}
	return h, nil
}

func (h *hardware) open(cfg *Config) (err error) {
	if h.dev, err = verbs.Open(h.device); err != nil {
		return &ConfigError{"Device", h.device, err.Error(), ErrNoDevice}
	}
	h.owe(h.dev.Close)
	if h.info, err = h.dev.Attr(); err != nil {
		return fmt.Errorf("ud: %w", err)
	}
	h.node = h.dev.Node()
	if h.pd, err = h.dev.AllocPD(); err != nil {
		return exhausted(err)
	}
	h.owe(h.pd.Close)
	cfg.SendRing = min(cfg.SendRing, floor2(int(h.info.MaxWR)/2))
	if err = h.arenas(cfg); err != nil {
		return err
	}
	if err = h.queues(cfg); err != nil {
		return err
	}
	var key [4]byte
	_, _ = rand.Read(key[:])                                 // never fails
	h.qkey = binary.LittleEndian.Uint32(key[:]) &^ (1 << 31) // the highest bit is for privileged keys
	if err = h.ready(); err != nil {
		return fmt.Errorf("ud: %w", err)
	}
	return nil
}

func (h *hardware) owe(close func() error) { h.closers = append(h.closers, close) }

// close frees everything, also after half an open.
func (h *hardware) close() (err error) {
	for i := len(h.closers) - 1; i >= 0; i-- {
		err = errors.Join(err, h.closers[i]())
	}
	h.closers = nil
	return err
}

// closeQP frees the queue pair before the rest, so that address handles can be freed.
func (h *hardware) closeQP() error {
	last := len(h.closers) - 1
	err := h.closers[last]()
	h.closers = h.closers[:last]
	return err
}

// floor2 returns the largest power of two up to n, at least 1.
func floor2(n int) int {
	p := 1
	for 2*p <= n {
		p *= 2
	}
	return p
}

// arenas registers the memory of both rings.
func (h *hardware) arenas(cfg *Config) (err error) {
	if h.tx, err = h.register(cfg.SendRing, slotSize(0, cfg.MTU)); err != nil {
		return err
	}
	ring, limit := cfg.RecvRing, int(h.info.MaxWR)
	if ring > limit {
		return &ConfigError{"RecvRing", ring, fmt.Sprintf("the device takes up to %d", limit),
			ErrExhausted}
	}
	if ring == 0 {
		ring = min(defaultRing, floor2(limit))
	}
	for {
		h.rx, err = h.register(ring, slotSize(rxData, cfg.MTU))
		if err == nil || cfg.RecvRing != 0 || ring/2 < minRing || !errors.Is(err, ErrMemlock) {
			cfg.RecvRing = ring
			return err
		}
		ring /= 2
	}
}

func (h *hardware) register(slots, stride int) (a arena, err error) {
	a = arena{slots: slots, stride: stride}
	if a.mem, _, err = hugemem.Alloc(slots * stride); err != nil {
		return a, fmt.Errorf("ud: %w", err)
	}
	if a.mr, err = h.pd.Register(a.mem, verbs.LocalWrite); err != nil {
		_ = hugemem.Free(a.mem) // just made
		if errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.EPERM) {
			return a, &ConfigError{"RecvRing", slots, fmt.Sprintf("%d bytes wanted", len(a.mem)),
				errors.Join(ErrMemlock, err)}
		}
		return a, fmt.Errorf("ud: %w", err)
	}
	h.owe(func() error { return hugemem.Free(a.mem) })
	h.owe(a.mr.Close)
	return a, nil
}

// exhausted names what failures to make queues mostly mean.
func exhausted(err error) error { return fmt.Errorf("ud: %w: %w", ErrExhausted, err) }

// queues makes the completion queues and the queue pair.
func (h *hardware) queues(cfg *Config) (err error) {
	if h.ch, err = h.dev.CreateChannel(); err != nil {
		return exhausted(err)
	}
	h.owe(h.ch.Close)
	// Room for all requests: in an error state each completes.
	if h.sendCQ, err = h.dev.CreateCQ(cfg.SendRing+1, nil); err != nil {
		return exhausted(err)
	}
	h.owe(h.sendCQ.Close)
	if h.recvCQ, err = h.dev.CreateCQ(cfg.RecvRing, h.ch); err != nil {
		return exhausted(err)
	}
	h.owe(h.recvCQ.Close)
	q := verbs.QPConfig{Type: verbs.UD, SendCQ: h.sendCQ, RecvCQ: h.recvCQ, MaxSend: cfg.SendRing + 1,
		MaxRecv: cfg.RecvRing, MaxInline: cfg.MaxInline}
	for {
		h.qp, err = h.pd.CreateQP(&q)
		if err == nil {
			break
		}
		if q.MaxInline == 0 || !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOMEM) {
			return exhausted(err)
		}
		q.MaxInline /= 2 // it may be that which the device does not have
	}
	h.inline = min(q.MaxInline, cfg.MaxInline)
	h.owe(h.qp.Close)
	return nil
}

// ready takes the queue pair from RESET to RTS.
func (h *hardware) ready() error {
	for _, a := range []verbs.QPAttr{
		{State: verbs.StateInit, Port: uint32(h.port), QKey: h.qkey},
		{State: verbs.StateRTR},
		{State: verbs.StateRTS},
	} {
		if err := h.qp.Modify(a); err != nil {
			return err
		}
	}
	return nil
}

// toPeers is the address handle attribute without the peer.
func (h *hardware) toPeers(cfg *Config) verbs.AHAttr {
	a := verbs.AHAttr{Port: uint32(h.port), SL: uint32(cfg.ServiceLevel), SGID: uint32(h.gid.Index)}
	if h.attr.LinkLayer == verbs.Ethernet {
		a.Global, a.HopLimit, a.Class = 1, hopLimit, cfg.class()
	}
	return a
}
