package transport

import (
	"errors"
	"time"
)

// Errors that every transport uses.
var (
	// ErrClosed is returned by every call after Close.
	ErrClosed = errors.New("transport: closed")
	// ErrUnsupported means that this machine or system lacks what the transport needs, or the
	// transport what it is asked for.
	ErrUnsupported = errors.New("transport: not supported on this system")
	// ErrBadAddress means that a text is not an address of this transport.
	ErrBadAddress = errors.New("transport: bad address")
)

// PrivateBytes is the size in bytes up to which received packets are in memory that no
// other process can change, also from a destination whose Path.Shared is set. Path.Private has
// nothing to do with it.
const PrivateBytes = 256

// Caps says what a transport can do, whatever the destination. It does not change during the
// transport's life. Path says what depends on the destination.
type Caps struct {
	// Name is the transport's short name, "udp" or "sim".
	Name string
	// MTU is the largest packet in bytes that TxBurst takes, library header
	// included, transport headers (IP, UDP) not. Path.MTU has the limit of a destination.
	MTU int
	// RxRing is the number of MTU-sized packets, roughly, that can wait to be
	// received before the network drops packets. Credits are sized by it.
	RxRing int
	// TxCopies says that TxBurst copies all bytes out before it returns, so that Flush has
	// nothing to do. Without it the transport lends: it may read TxItem.Data until Flush.
	TxCopies bool
	// TxBatch is how many packets are worth a call of TxBurst while more of the same
	// receive burst are still to be answered: enough that the call costs little, and no
	// more, so that the receiver has work early. 0 means all there are.
	TxBatch int
	// TxCostly says that each call of TxBurst costs much (a system call): then TxBatch counts only
	// for bursts that were waited for, since only then the peer may have nothing else to do.
	TxCostly bool
	// ECN says that RxPacket.CE is filled in.
	ECN bool
	// LinkRate is the rate of the network link in bits per second, 0 if unknown.
	LinkRate int64
}

// RxPacket is one received packet. Data belongs to the transport and stays valid
// until the next RxBurst or Close; the receiver may write to it until then.
type RxPacket struct {
	Data []byte
	From Addr
	CE   bool // the network marked it "congestion experienced" (RFC 3168)
	// Shared says that the sender can still change Data, at any time: see Path.Shared. RxBurst sets
	// it for each packet of more than PrivateBytes from such a destination.
	Shared bool
}

// Transport moves datagrams in bursts. It may lose, repeat, reorder and (unless
// Path.Checksummed) damage them, but never joins or cuts them.
//
// One goroutine at a time uses a Transport; only Resolve, Addrs, Register, Unregister, Wake,
// LocalAddr, Caps, Kind and Close may be called from any. The contract is tested by package
// conformance.
//
// A transport of one's own embeds [Base] and writes the methods that Base does not have. A
// decorator embeds the Transport that it decorates, and writes those that it changes.
type Transport interface {
	// Caps returns what the transport can do.
	Caps() Caps

	// LocalAddr returns the address that peers send to.
	LocalAddr() Addr

	// Resolve turns text ("host:port" for IP transports) into an address.
	// It may block, but not for ever: its caller may have gone. Errors match
	// ErrBadAddress or are those of the resolver; ErrClosed after Close. Safe from any
	// goroutine, also beside Close, which does not wait for a name service.
	Resolve(text string) (Addr, error)

	// Addrs returns all addresses that text had when Resolve was asked for it last, in the order in
	// which they are to be tried (RFC 8305), without those that this transport cannot reach,
	// MaxAddrs at most. That of Resolve is among them. nil stands for that one, and for a text that
	// Resolve was not asked for lately. It blocks no longer than Resolve does. Safe from any
	// goroutine.
	Addrs(text string) []Addr

	// Path describes the way to dst. It sends nothing, does not block for long and leaves
	// received packets valid. It is meant for the opening of a session on either side, not for
	// each packet: it may make system calls. Unknown fields have the transport's general
	// value: all of them for the zero Addr and for an address without a route. After Close it
	// still returns a Path. Only for the using goroutine.
	Path(dst Addr) Path

	// IsPrivate returns the Private of Path(from), at once and without a system call: an endpoint
	// asks for packets of strangers, which anybody can send. Only for the using goroutine.
	IsPrivate(from Addr) bool

	// TxBurst sends items in order and returns how many it took. Fewer than
	// len(items) with a nil error means that the network takes no more now: the
	// caller may offer the rest again or drop it, the transport has not seen it.
	// A packet that can never be sent (too large, no route) counts as taken and
	// as Stats.TxDropped. An error means that the transport itself is unusable.
	TxBurst(items []TxItem) (int, error)

	// Flush returns when the transport refers to no buffer given to TxBurst.
	Flush()

	// RxBurst fills in up to len(pkts) packets without waiting and returns how
	// many. It ends the validity of the packets of the call before. An error
	// means that the transport itself is unusable.
	RxBurst(pkts []RxPacket) (int, error)

	// Waited returns for how long the first packet of the last RxBurst has been in this host: until
	// now, from when its driver had it, by the host's real-time clock, so it may be wrong by as much
	// as that was set. It is 0 if nobody knows. The first call may make the transport find out from
	// the next RxBurst on. Only for the using goroutine.
	Waited() time.Duration

	// Hints fills in up to len(hints) of what is known since the last call about packets sent
	// earlier, and returns how many; the transport may have forgotten some. It neither waits nor
	// makes system calls: the hints came with the TxBurst and RxBurst before. A hint about a peer
	// comes after the packets from there that RxBurst has returned. Only for the using goroutine.
	Hints(hints []Hint) int

	// Renew has packets to dst leave by another of this side's ports from now on, and takes what
	// comes to that port, too. Others are reached as before, and LocalAddr stays. A translator of
	// addresses leads a port to one host for as long as packets come from there, also when that host
	// is gone. The error is ErrUnsupported if there is no other port. Only for the using goroutine.
	Renew(dst Addr) error

	// Wait blocks until a packet may have arrived, Wake was called since the last
	// Wait returned, or timeout has passed. It may return early for no reason. A
	// negative timeout waits without end. After Close it returns ErrClosed.
	Wait(timeout time.Duration) error

	// Nap is Wait, but packets that arrive meanwhile need not end it: each wake-up of a thread
	// costs more than the packet that makes it. Wake and Close end it early. The error is
	// ErrUnsupported, at once, if the transport has no such sleep: call Wait then. Only for the
	// using goroutine.
	Nap(timeout time.Duration) error

	// WaitFDs, PrepareWait and FinishWait are Wait in three steps, of which the middle one,
	// polling descriptors, is the caller's. So one who polls the descriptors of several transports
	// sleeps on all at once. No wake-up is lost: an event before PrepareWait makes it return
	// false, an event after it makes a descriptor readable. All are only for the using goroutine.
	//
	// WaitFDs returns the file descriptors to poll for reading, at most 32, the same ones each
	// time. The transport keeps them open from PrepareWait to FinishWait. nil means that this one
	// cannot be waited for together with others, only by Wait: PrepareWait returns ErrUnsupported.
	WaitFDs() []int

	// PrepareWait begins a wait. It returns false if there is something to do already,
	// so that the caller must not block. FinishWait must follow, whatever it
	// returned, unless it returned an error: ErrClosed.
	PrepareWait() (idle bool, err error)

	// FinishWait ends the wait. Bit i of ready says that descriptor i was readable; 0 if
	// the caller did not poll. It returns ErrClosed if the transport was closed meanwhile:
	// Close makes a descriptor readable and waits for FinishWait.
	FinishWait(ready uint32) error

	// Wake makes the current or else the next Wait return. Safe from any goroutine.
	Wake()

	// Register announces mem, off the Go heap, from which packets will be sent: some devices, as
	// RDMA adapters, send packets from where they lie only if they know the memory. It stays where
	// it is until Unregister. The key is the transport's business; if it is 0 the transport keeps
	// nothing about the memory, which may move then. Packets in memory that cannot be registered are
	// copied: that is no error. The endpoint announces all memory that its message buffers come from.
	// Safe from any goroutine, also after Close.
	Register(mem []byte) (key uint32, err error)

	// Unregister takes back Register with the same mem, before it is unmapped. No packet in it
	// is under way: its buffers were freed. Safe from any goroutine, also after Close.
	Unregister(mem []byte, key uint32)

	// Kind returns a comparable value that is equal for transports which differ in nothing but a
	// local port that the system chose, and are Sharable: to dial from one is then as good. It is nil
	// for all others, after Close, and unless self is the transport that is asked. So a decorator,
	// which passes on its own self, has none, and keeps what it decorates. Safe from any goroutine.
	Kind(self Transport) any

	// Stats returns counters since the start. Only for the using goroutine.
	Stats() Stats

	// Close frees everything. Safe from any goroutine, also more than once; a
	// blocked Wait returns. Received packets must not be used any more, so the
	// caller makes sure that nobody is inside TxBurst or RxBurst.
	Close() error
}

// Sharable is a transport that several parts of a program can use as one, without knowing of each
// other; see [Transport.Kind].
type Sharable interface {
	Transport
	// Detach returns what is behind the transport as another one, which its caller owns. Close of
	// the first one does nothing from then on.
	Detach() Transport
}

// MaxAddrs is the most addresses of a name that are tried.
const MaxAddrs = 8

// Base has the methods of a [Transport] that has nothing to say in them; its own type embeds it
// and writes the others. It does not know how long packets wait, hears no hints, has no way to
// sleep but Wait, needs to know no memory, is like no other transport, and no path is private: who
// has paths with Path.Private writes IsPrivate too.
type Base struct{}

// IsPrivate returns false.
func (Base) IsPrivate(Addr) bool { return false }

// Addrs returns nil: no text has more than one address.
func (Base) Addrs(string) []Addr { return nil }

// Kind returns nil.
func (Base) Kind(Transport) any { return nil }

// Waited returns 0.
func (Base) Waited() time.Duration { return 0 }

// Hints returns none.
func (Base) Hints([]Hint) int { return 0 }

// Renew returns ErrUnsupported.
func (Base) Renew(Addr) error { return ErrUnsupported }

// Nap returns ErrUnsupported.
func (Base) Nap(time.Duration) error { return ErrUnsupported }

// WaitFDs returns nil.
func (Base) WaitFDs() []int { return nil }

// PrepareWait returns ErrUnsupported.
func (Base) PrepareWait() (idle bool, err error) { return false, ErrUnsupported }

// FinishWait returns ErrUnsupported.
func (Base) FinishWait(uint32) error { return ErrUnsupported }

// Register does nothing.
func (Base) Register([]byte) (key uint32, err error) { return 0, nil }

// Unregister does nothing.
func (Base) Unregister([]byte, uint32) {}

// Hint is news about a packet sent earlier, or about where such packets go.
type Hint struct {
	Kind HintKind
	To   Addr // where packets were sent; of HintTooBig perhaps without the port
	MTU  int  // of HintTooBig: the largest packet, as in Caps.MTU, that gets through; 0 if unknown
	// Quoted holds the first bytes of the packet, as many as the network gave back, QuotedMax at
	// most. It is valid until the next call of Hints.
	Quoted []byte
}

// QuotedMax is the most bytes of a packet that a Hint quotes.
const QuotedMax = 128

// HintKind says what a Hint is about.
type HintKind uint8

// The kinds of hints.
const (
	// HintUnreachable says that nobody listens at the port: ICMP "port unreachable". Anybody can
	// forge such a message, and many get lost.
	HintUnreachable HintKind = iota + 1
	// HintTooBig says that the packet is larger than the way carries: ICMP "fragmentation needed"
	// or "packet too big", or this machine's own word. Anybody can forge it too.
	HintTooBig
	// HintGone says that the peer's process has ended, or has closed its endpoint: nothing comes
	// from the address any more, ever, and all that came was returned by RxBurst. The kernel says
	// so of what only the peer could close. Nobody else can forge it for a connection that the peer
	// has made.
	HintGone
)

// Stats counts what a transport did, since it was made.
type Stats struct {
	TxPackets uint64 // packets taken by TxBurst and given to the network
	TxBytes   uint64 // their bytes, without the transport's own headers
	TxDropped uint64 // packets taken that could not be sent (too large, no route)
	TxStalls  uint64 // calls of TxBurst that took less than all
	TxCalls   uint64 // system calls or doorbells
	RxPackets uint64 // packets returned by RxBurst
	RxBytes   uint64 // their bytes
	RxDropped uint64 // packets lost in a full receive queue, as far as known
	RxCalls   uint64 // system calls or polls
}
