package faulty

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/userspace-rpc/erpc/internal/monotime"

	"github.com/userspace-rpc/erpc/transport"
)

// Direction is a set of directions.
type Direction uint8

// The directions.
const (
	None Direction = 0
	TX   Direction = 1 // packets sent
	RX   Direction = 2 // packets received
	Both Direction = TX | RX
)

// Counts counts the packets of one direction and what happened to them.
type Counts struct {
	Packets   uint64 // packets that came to this direction
	Lost      uint64 // swallowed by Loss
	Cut       uint64 // swallowed by Cut or CutAddr
	Corrupted uint64
	Repeated  uint64
	Reordered uint64 // held until others had passed
	Delayed   uint64 // held for a time
	Overflows uint64 // neither held nor repeated as the store was full
	Held      uint64 // in the store now
}

// Transport is a transport with faults. The rules of [transport.Transport] hold
// for it; Cut and CutAddr may be called from any goroutine. What has nothing to do with packets or
// with sleep is the inner transport's.
type Transport struct {
	inner
	caps   transport.Caps
	spoils bool // there is Corrupt
	clock  func() Time
	tx, rx side
	fates  []fate // drawn for items that the inner transport did not take yet
	one    [1]transport.TxItem
	spoilt []byte // the damaged copy of a packet being sent
	closed atomic.Bool
	// closing keeps Close out while Wait sends held packets. Callers of Close keep
	// clear of TxBurst only, and cannot know when that happens.
	closing sync.Mutex

	cutAll   atomic.Uint32 // a Direction
	cutMu    sync.Mutex    // serializes writers of cutAddrs
	cutAddrs atomic.Pointer[map[transport.Addr]Direction]
}

// inner names the embedded field, the decorated transport, and keeps it unexported.
type inner = transport.Transport

// side is one direction.
type side struct {
	dir    Direction
	faulty bool
	dice   dice
	store  store
	counts Counts
}

// New decorates a transport, which belongs to the result from then on. The error is a
// *ConfigError.
func New(under transport.Transport, cfg Config) (*Transport, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Hold == 0 {
		cfg.Hold = DefaultHold
	}
	if cfg.Clock == nil {
		cfg.Clock = monotime.Now
	}
	t := &Transport{inner: under, caps: under.Caps(), clock: cfg.Clock}
	t.tx = newSide(TX, cfg.TX, &cfg, t.caps.MTU)
	t.rx = newSide(RX, cfg.RX, &cfg, t.caps.MTU)
	if cfg.TX.Corrupt > 0 {
		t.spoilt = make([]byte, t.caps.MTU)
	}
	t.spoils = cfg.TX.Corrupt > 0 || cfg.RX.Corrupt > 0
	return t, nil
}

func newSide(dir Direction, f Faults, cfg *Config, mtu int) side {
	s := side{dir: dir, faulty: f.any(), dice: newDice(f, cfg.Seed, uint64(dir))}
	if f.holds() {
		s.store = newStore(cfg.Hold, mtu)
	}
	return s
}

// Cut cuts the network in the given directions, for all addresses, and mends it in
// the others. Packets that are held are lost when they come out into a cut.
func (t *Transport) Cut(dir Direction) { t.cutAll.Store(uint32(dir)) }

// CutAddr does the same for packets to and from one address: a partition.
func (t *Transport) CutAddr(addr transport.Addr, dir Direction) {
	t.cutMu.Lock()
	defer t.cutMu.Unlock()
	cut := map[transport.Addr]Direction{}
	if old := t.cutAddrs.Load(); old != nil {
		maps.Copy(cut, *old)
	}
	cut[addr] = dir
	if dir == None {
		delete(cut, addr)
	}
	if len(cut) == 0 {
		t.cutAddrs.Store(nil)
		return
	}
	t.cutAddrs.Store(&cut)
}

// anyCut reports whether packets must be looked at one by one.
func (t *Transport) anyCut() bool { return t.cutAll.Load() != 0 || t.cutAddrs.Load() != nil }

func (t *Transport) isCut(addr transport.Addr, dir Direction) bool {
	if Direction(t.cutAll.Load())&dir != 0 {
		return true
	}
	cut := t.cutAddrs.Load()
	return cut != nil && (*cut)[addr]&dir != 0
}

// Counts returns what happened to packets sent and received. Only for the
// goroutine that uses the transport.
func (t *Transport) Counts() (tx, rx Counts) {
	tx, rx = t.tx.counts, t.rx.counts
	tx.Held, rx.Held = uint64(len(t.tx.store.queue)), uint64(len(t.rx.store.queue))
	return tx, rx
}

// Caps returns those of the inner transport.
func (t *Transport) Caps() transport.Caps { return t.caps }

// Stats returns the counters of the inner transport, which sees what the faults
// left over. See Counts for the difference.
func (t *Transport) Stats() transport.Stats { return t.inner.Stats() }

// Close closes the inner transport. Held packets are lost.
func (t *Transport) Close() error {
	t.closing.Lock()
	t.closed.Store(true)
	t.closing.Unlock()
	return t.inner.Close()
}

// Path returns that of the inner transport, not Checksummed if there is Corrupt. It is never Local:
// there is a network now.
func (t *Transport) Path(dst transport.Addr) transport.Path {
	p := t.inner.Path(dst)
	p.Local = false
	p.Checksummed = p.Checksummed && !t.spoils
	return p
}

// hold decides for how long packet x is held, if at all, and returns its place in
// the store with address, size and times set. The packet is not counted yet.
func (t *Transport) hold(s *side, x *fate, addr transport.Addr, size int) *held {
	if x.reorder == 0 && x.delay == 0 {
		return nil
	}
	h := s.store.put()
	if h == nil {
		s.counts.Overflows++
		return nil
	}
	h.addr, h.n = addr, size
	h.after, h.at = never, t.clock().Add(x.delay)
	if x.reorder > 0 {
		s.counts.Reordered++
		h.at = h.at.Add(s.dice.f.ReorderHold)
		if x.delay == 0 {
			h.after = s.counts.Packets + 1 + uint64(x.reorder) // itself counts
		}
	}
	if x.delay > 0 {
		s.counts.Delayed++
	}
	return h
}
