package erpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/bits"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/wire"
)

// Wait says what an event loop does when it has nothing to do.
//
// A loop that spins yields to other threads of the machine every few microseconds. Where they keep
// the core, which shows in gaps of half a millisecond and more between two looks at the network,
// loops of all kinds sleep at once for 20 ms to a second, and then try again; but a loop with
// several calls at once, unless WaitSleep, first polls for 50 us while that mostly meets a packet.
// After the process used up the CPU quota of its control group they sleep at once for 2 s to 2
// minutes. In a process that has more loops than GOMAXPROCS they always do: a larger GOMAXPROCS, so
// that each loop has a processor and one is left, is twice as fast.
type Wait uint8

const (
	// WaitAdaptive spins where the next packet usually comes within twice the time that a wake-up
	// costs, or regularly within nine times that, for Config.SpinFor at most. Else it sleeps until
	// a packet, a command or a timer comes. The loop measures both. It is the default.
	WaitAdaptive Wait = iota
	// WaitSpin spins as long as it has its core to itself: lowest latency, one core busy. On a
	// core that others want, or under a used-up CPU quota, it sleeps like WaitAdaptive: a loop
	// that only spun would lose its core for milliseconds at a time, packets or not.
	WaitSpin
	// WaitSleep is for the least CPU per call. It sleeps when there is nothing to do, unless most
	// packets come in a quarter of the time that a wake-up costs (tens of microseconds): to spin
	// until then takes less CPU than to fall asleep and be woken.
	WaitSleep
)

// Config configures a Nexus and the Rpcs made from it. The zero value works, for handlers that
// block too. The table in docs/limits.md says which field bounds what, and what happens beyond it.
type Config struct {
	// Slots is the number of requests in flight per session: a power of two, at most MaxSlots.
	// Default 8 (eRPC, section 4.3).
	Slots int
	// Credits is the number of packets in flight per session, at most MaxCredits. Default 0: at
	// first 32 (eRPC, section 4.3.1), or with packets smaller than 8 KiB as many as make 256 KiB,
	// up to 128; then as many as the path fills, and never more than a quarter of what either
	// side can hold, or an equal share where it has more than four sessions. See Session.Window.
	Credits int
	// LeastWindow is the number of packets in flight to which losses and long queues may take a
	// session of this side's, unless Credits is set. Default 1: then many sessions share the slowest
	// link. But a path that loses many packets for no queue, and makes round trips long, lets through
	// next to nothing one by one, since each loss is a timeout. A few sessions may keep 8 there.
	LeastWindow int
	// Waiting is the number of requests of one session that may wait at the server without a
	// credit, because their handlers take long; see ReqHandle.Wait. Their answers can come at any
	// time, beyond what credits allow. Default: all of them; -1 means none.
	Waiting int
	// MTU is the largest packet in bytes, library header included; 0 means what
	// the transport takes. A path that carries less is noticed while connecting.
	MTU int
	// MaxMessage is the largest request or response in bytes. Default 8 MiB.
	MaxMessage int
	// MaxSessions bounds the sessions of one Rpc, both kinds together. Default 32768.
	MaxSessions int
	// DialOnly has endpoints dial, and take no sessions. Whoever tries to connect, with keys or
	// without, gets one small answer, as long as a budget lasts, and reads ErrRefused. There is no
	// cookie and no handshake: nothing is signed, no certificate is shown, nothing is kept of him.
	// Loops are always so, those of Dial too: they have no handlers. Servers, and endpoints of NewRpc
	// and NewRpcs, take sessions unless it is set.
	DialOnly bool
	// MaxQueue bounds the requests of one session that wait for a slot, and all calls of a Client,
	// those under way too. Default 65536.
	MaxQueue int
	// Checksum adds a CRC-32C to every packet, for transports and networks that
	// do not drop damaged packets. Transports that say they do not check get it anyway.
	Checksum bool
	// Timing holds timeouts and heartbeats.
	Timing Timing
	// Congestion chooses and tunes congestion control.
	Congestion Congestion
	// Wait and SpinFor say how an idle event loop waits. SpinFor bounds the spinning of
	// WaitAdaptive and WaitSleep after the last packet; it defaults to 200 us.
	Wait    Wait
	SpinFor time.Duration
	// LockThread makes Run and RunFor lock their goroutine to its OS thread, and
	// not yield to other goroutines while they spin, only to other threads: for loops that have a
	// core of their own. Handing work to goroutines is slower from a locked thread.
	LockThread bool
	// Burst is the number of packets taken in by one pass of the loop. Default 256.
	Burst int
	// Workers bounds the goroutines for background handlers of all Rpcs of the Nexus. They come when
	// there is work for them, and go when they have had none for some seconds. One address has three
	// quarters of the limit at most; see Shares. Default: as many as are needed, up to
	// MaxBackground, and the event loop of a Server runs quick handlers itself. If Workers is set
	// handlers run in the pool only: so no more than that many run at a time.
	Workers int
	// MaxBackground bounds the background requests of one Rpc that wait or run;
	// more are answered with "resource exhausted". Default 4096.
	MaxBackground int
	// MemoryLimit bounds the memory of message buffers of all Rpcs of the Nexus, in bytes. Default:
	// a quarter of what the process may use, which is the machine's memory or that of its control
	// group, for all Nexus with the default together.
	//
	// Requests and responses in buffers of more than 512 bytes count as their client's, within this
	// limit and the share of its address: a response from ReqHandle.Alloc on, or from when a Func has
	// returned it, until the client asks for the next one in its slot. Without room for it Alloc
	// gives ErrExhausted, and so does the call of a Func's client. What a Func allocates before it
	// returns is not known. So if responses of a type were large lately, 64 KiB or more, a background
	// request of that type counts as one before it runs. Without room for that it ends with
	// ErrExhausted and ErrNotRun, but for one at a time of an address that has less than that.
	// Nexus.MaxResponse declares it: then no answer is refused after its handler has run.
	MemoryLimit int64
	// Shares says what one client's address can have of sessions, workers and memory.
	Shares Shares
	// NoBundles makes each packet a datagram, in sessions of either side. Otherwise the small packets
	// that a burst has for a peer share datagrams, unless the transport does better without.
	NoBundles bool
	// NoHugepages keeps message buffers in ordinary pages even if the machine has
	// huge pages reserved and free.
	NoHugepages bool
	// TLS makes all sessions secure, of either side: TLS 1.3 makes keys for each pair of endpoints,
	// and every packet is encrypted and authenticated. A server needs Certificates or
	// GetCertificate; with ClientCAs its clients must have certificates that these vouch for
	// (mutual TLS). A client checks the server's name, which is ServerName or the host that was
	// dialled, against RootCAs, and shows Certificates if it is asked. Certificates and authorities
	// change without a restart by Keyring, or all but RootCAs by the config's callbacks. Keys are
	// agreed on by X25519; CurvePreferences with X25519MLKEM768 makes that safe from quantum
	// computers, and takes one more packet; CurveP256 in a client's config takes less time of both
	// processors. Servers take all three. The protocol's name (ALPN) and the least version are the
	// library's. The config must not be changed any more, as crypto/tls says; Keyring is for that.
	//
	// Sessions over shared memory have the same: their packets are encrypted as those over UDP are,
	// by keys that need the same certificates, unless TrustLocal is set.
	//
	// A certificate is checked when endpoints meet. One that expires later ends nothing: the keys
	// stay as long as sessions between the two do, or until Server.EndSessions.
	TLS *tls.Config
	// PSK makes all sessions secure by keys that the members of a closed cluster share. The first
	// one is used to dial, and all are taken, so that keys can be replaced one member after the
	// other. Each has at least 16 random bytes. A key tells members from strangers, and no member
	// from another. A thief of the key can read traffic recorded before. Not beside TLS. The keys are
	// copied.
	PSK [][]byte
	// Keyring replaces TLS or PSK later, without a restart: what its Set is given last counts for each
	// handshake that begins. It stands beside TLS or PSK, which count before the first Set.
	Keyring *Keyring
	// KeyUpdate is how long the keys of packets are used, with TLS or PSK: the next ones follow
	// from them, and the old ones are forgotten. Whichever side opened the association changes
	// them, also after 2^28 packets or 256 GiB. Default an hour.
	KeyUpdate time.Duration
	// TrustLocal lets sessions over shared memory be without encryption: the kernel vouches that
	// both processes are of one user, or root. It counts with TLS or PSK.
	TrustLocal bool
	// Authorize decides, with TLS, PSK or TrustLocal, whether a peer may have sessions: nil means
	// yes. It is asked once per pair of endpoints, or per session where those are not encrypted, by
	// a server and by a client, in a goroutine of its own, and in several at a time.
	//
	// It may wait, and so may callbacks and keys of TLS, for half of Timing.ConnectTimeout. Then ctx
	// ends, and the peer is refused and reads why. While it waits other clients have their
	// handshakes. At most 4,096 such questions are open, a quarter of them by one address; of
	// addresses that have many, the oldest end first. A panic of Authorize is logged, and refuses the
	// peer.
	Authorize func(ctx context.Context, peer ConnectionState) error
	// AuthorizeRequest decides, per request, whether a peer may have a handler run for this type: nil
	// means yes. Peer has the value of ReqHandle.State, nil if packets are plain; it must not be
	// changed. An error is the answer, with its text, the Details of an *Error, and
	// CodePermissionDenied, and says that the handler did not run. Handlers of all kinds are guarded;
	// requests of types without one are refused before. It runs in the event loop, like a Dispatch
	// handler: it must be quick, must not block or panic, and the loops of a Nexus call it at the
	// same time.
	AuthorizeRequest func(peer *ConnectionState, reqType uint8) error
	// KeyLog gets the secrets of each pair of endpoints, a line each, for "erpc decode" and
	// dissectors. They open all packets. Default: TLS.KeyLogWriter, if it is set.
	KeyLog io.Writer
	// OnSession is called in the Rpc's thread when a session of either kind
	// comes, fails or goes.
	OnSession func(r *Rpc, s *Session, ev SessionEvent)
	// Logger gets rare events (sessions lost, peers refused). Default: none.
	Logger *slog.Logger

	// Experiment is for measurements, Simulation for simulations. Services leave both zero.
	Experiment Experiment
	Simulation Simulation

	// The oldest and the newest protocol version that are spoken; tests of other releases set them.
	oldest, newest uint8
}

// Shares says how clients share a server. Sessions, requests at work in background handlers, their
// workers, and memory are given to any client until three quarters of the limit are in use. The
// last quarter is for addresses that have less than their share: the limit, divided by the number
// of addresses that use some of it and one more. So one address alone gets three quarters.
//
// Clients behind one address translator (NAT), or in one IPv6 network, count as one.
type Shares struct {
	// Off lets one address have everything.
	Off bool
	// IPv4Bits and IPv6Bits are how much of an address counts. Defaults: 32 and 64. Link-local
	// addresses, and those of shared memory, count in full.
	IPv4Bits, IPv6Bits int
}

// fill puts in the defaults.
func (s *Shares) fill() error {
	for _, f := range []struct {
		v        *int
		def, max int
		name     string
	}{{&s.IPv4Bits, 32, 32, "IPv4Bits"}, {&s.IPv6Bits, 64, 128, "IPv6Bits"}} {
		if *f.v == 0 {
			*f.v = f.def
		}
		if *f.v < 1 || *f.v > f.max {
			return &ConfigError{"Shares." + f.name,
				fmt.Sprintf("is %d, must be 1 to %d", *f.v, f.max)}
		}
	}
	return nil
}

// Experiment switches off common-case optimisations, to measure what they bring.
type Experiment struct {
	// NoPrealloc: a server's responses are not preallocated (eRPC, section 4.3).
	NoPrealloc bool
	// NoZeroCopy: handlers do not see a request in the receive buffer (section 4.2.3).
	NoZeroCopy bool
	// NoRateBypass: uncongested sessions whose RTT is low update their rate (section 5.2.2).
	NoRateBypass bool
	// NoPacingBypass: their packets go through the rate limiter.
	NoPacingBypass bool
	// NoBatchedTime: the clock is read for each packet, not for each batch.
	NoBatchedTime bool
}

// Simulation replaces what makes two runs differ.
type Simulation struct {
	// Seed makes tokens, nonces and epochs repeatable. 0 means random ones; anything else is
	// unsafe on a real network.
	Seed uint64
	// Clock returns the time. Default: the system's monotonic clock. If it goes back, the time goes
	// on from where it was; if it jumps ahead, timers run.
	Clock func() Time
	// Executor runs background handlers. Default: a pool of goroutines; see Config.Workers.
	Executor Executor
}

// Executor runs tasks, each in a goroutine that is not the caller's.
type Executor interface {
	// Submit starts t or says that there is no room. It does not wait.
	Submit(t Task) bool
}

// Task is a unit of background work.
type Task interface{ Run() }

// ConfigError says which field of a Config is wrong. It matches ErrConfig.
type ConfigError struct {
	Field  string
	Reason string
}

func (e *ConfigError) Error() string { return "erpc: config: " + e.Field + " " + e.Reason }

// Is reports whether target is ErrConfig.
func (e *ConfigError) Is(target error) bool { return target == ErrConfig }

// negative is the error of a field that must not be.
func negative(field string, value any) error {
	return &ConfigError{field, fmt.Sprintf("is %v, must not be negative", value)}
}

// fill returns the config with defaults in place of zeros, or a *ConfigError.
func (c Config) fill() (Config, error) {
	for _, f := range []struct {
		v             *int
		def, min, max int
		name          string
	}{
		{&c.Slots, session.DefaultSlots, 1, MaxSlots, "Slots"},
		{&c.Credits, 0, 0, MaxCredits, "Credits"},
		{&c.LeastWindow, 1, 1, 32, "LeastWindow"},
		{&c.Waiting, MaxSlots, -1, MaxSlots, "Waiting"},
		{&c.MaxMessage, msgbuf.DefaultMaxMessage, 1, MaxMessage, "MaxMessage"},
		{&c.MaxSessions, 32768, 1, wire.NoSession, "MaxSessions"},
		{&c.MaxQueue, 65536, 1, 1 << 24, "MaxQueue"},
		{&c.Burst, 256, 1, 4096, "Burst"},
		{&c.Workers, 0, 0, 1 << 16, "Workers"},
		{&c.MaxBackground, 4096, 1, 1 << 20, "MaxBackground"},
	} {
		if *f.v == 0 {
			*f.v = f.def
		}
		if *f.v < f.min || *f.v > f.max {
			return c, &ConfigError{f.name, fmt.Sprintf("is %d, must be %d to %d", *f.v, f.min, f.max)}
		}
	}
	if c.Slots&(c.Slots-1) != 0 {
		below := 1 << (bits.Len(uint(c.Slots)) - 1)
		return c, &ConfigError{"Slots", fmt.Sprintf("is %d, must be a power of two: %d or %d",
			c.Slots, below, 2*below)}
	}
	if c.MTU != 0 && (c.MTU < MinMTU || c.MTU > 1<<16) {
		return c, &ConfigError{"MTU", fmt.Sprintf("is %d, must be %d to %d", c.MTU, MinMTU, 1<<16)}
	}
	if err := c.Congestion.check(); err != nil {
		return c, err
	}
	if c.Wait > WaitSleep {
		return c, &ConfigError{"Wait", fmt.Sprintf("is %d, must be WaitAdaptive, WaitSpin or WaitSleep",
			c.Wait)}
	}
	if c.SpinFor < 0 {
		return c, negative("SpinFor", c.SpinFor)
	}
	if c.MemoryLimit < 0 {
		return c, negative("MemoryLimit", c.MemoryLimit)
	}
	if err := c.Shares.fill(); err != nil {
		return c, err
	}
	if c.SpinFor == 0 {
		c.SpinFor = 200 * time.Microsecond
	}
	if c.newest == 0 {
		c.oldest, c.newest = wire.OldVersion, wire.Version
	}
	t, err := session.Timing(c.Timing).Fill()
	var bad *session.TimingError
	if errors.As(err, &bad) {
		return c, &ConfigError{"Timing." + bad.Field, bad.Reason}
	}
	c.Timing = Timing(t)
	if err = c.checkSecurity(); err != nil {
		return c, err
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// Limits of requests and sessions.
const (
	MaxReqType      = 254       // largest request type
	MaxErrorText    = 512       // bytes of an error's text
	MaxErrorDetails = 480       // bytes of an error's details
	MaxSlots        = 128       // requests in flight in one session
	MaxCredits      = 4096      // packets in flight in one session
	MinMTU          = 1024      // bytes of a packet that every path carries
	MaxMessage      = 1<<28 - 1 // bytes that Config.MaxMessage can be
)

// The limits are those of the packages below. A difference does not compile.
const (
	_ = uint(-(MaxReqType ^ wire.MaxReqType | MaxErrorText ^ wire.MaxErrorText))
	_ = uint(-(MaxErrorDetails ^ wire.MaxErrorDetails))
	_ = uint(-(MaxMessage ^ wire.MaxMsgSize | MinMTU ^ session.MinMTU))
	_ = uint(-(MaxSlots ^ session.MaxSlots | MaxCredits ^ session.MaxCredits))
)

// Reason says why the library answered a request with an error, in place of its handler or beside
// it.
type Reason uint8

// The reasons.
const (
	ReasonNone        Reason = iota // of an error that was not received
	ReasonNoHandler                 // no handler for this request type
	ReasonTooLarge                  // the message is larger than the receiver takes
	ReasonExhausted                 // out of sessions, buffers or workers
	ReasonShutdown                  // the receiver is closing
	ReasonApplication               // the handler returned an error; its text follows
	ReasonBadOffer                  // the client's offer for a session cannot be met
	ReasonPanic                     // the handler panicked
	ReasonCancelled                 // the client gave the request up
	ReasonDeadline                  // the request's time passed at the server
	ReasonForgotten                 // the handler ran, and its response is not kept any more
	ReasonInsecure                  // one side demands security, and the other one has none
	ReasonDenied                    // the peer is not known, not welcome, or may not do that
	ReasonNoKeys                    // the peer has lost the keys
)

// String returns the reason's name.
func (r Reason) String() string { return r.wire().String() }

func (r Reason) wire() wire.Code { return wire.Code(r) }

// Code is a gRPC status code (grpc.io, "Status codes and their use in gRPC").
type Code uint8

// The codes.
const (
	CodeOK Code = iota // of no error
	CodeCancelled
	CodeUnknown
	CodeInvalidArgument
	CodeDeadlineExceeded
	CodeNotFound
	CodeAlreadyExists
	CodePermissionDenied
	CodeResourceExhausted
	CodeFailedPrecondition
	CodeAborted
	CodeOutOfRange
	CodeUnimplemented
	CodeInternal
	CodeUnavailable
	CodeDataLoss
	CodeUnauthenticated
)

// String returns the name that gRPC uses.
func (c Code) String() string { return c.wire().String() }

func (c Code) wire() wire.Status { return wire.Status(c) }

// Time is a point on the clock of an Rpc, in nanoseconds since an arbitrary start.
type Time = monotime.Time

// Params holds what the two sides of a session agreed on.
type Params struct {
	Slots      int  // requests in flight; a power of two
	Credits    int  // packets in flight
	PerPacket  int  // data bytes in a packet: the MTU less the header
	MaxMessage int  // bytes
	Waiting    int  // requests that may wait at the server without a credit
	Checksum   bool // packets carry a CRC-32C
	Bundles    bool // small packets share datagrams
	Sealed     bool // packets are encrypted; see Config.TLS
	// Version is the protocol version of the packets: 3, or 2 with a peer of an earlier release.
	Version uint8
}

// Timing holds the time constants of sessions. The zero value of a field means its default.
//
// A client pings a peer that was silent for FailureTimeout less three Heartbeats, one Heartbeat at
// least and three at most: 1.5 s by default. A server does so a Heartbeat later. So three pings go
// unanswered before the peer counts as lost, and an idle one costs little.
type Timing struct {
	RTOMin           time.Duration // least retransmission timeout, default 5 ms, the paper's fixed one
	RTOMax           time.Duration // largest, after backoff, default 200 ms
	RTOInitial       time.Duration // before the first RTT sample, default 20 ms
	Heartbeat        time.Duration // between pings without answer, default 500 ms; see below
	SilenceTimeout   time.Duration // silence before calls go elsewhere, default 20 ms; see Pool
	FailureTimeout   time.Duration // silence before the peer counts as lost, default 3 s
	ConnectTimeout   time.Duration // for the handshake, and a Client's lookup before; default 3 s
	ConnectRetry     time.Duration // repetition of a handshake packet, at first, default 10 ms
	DisconnectLinger time.Duration // how long a Disconnect is repeated, default 200 ms
}

// ProtocolStats counts protocol events of all sessions of an Rpc.
type ProtocolStats struct {
	Retransmits   uint64 // packets sent again, by client and server
	Rollbacks     uint64 // go-back-N rollbacks after a timeout
	FastRollbacks uint64 // ... on evidence of loss
	FastResends   uint64 // of Retransmits: by a client, after a FastRollback
	Reanswers     uint64 // of Retransmits: by a server, asked for by repeated packets
	Gaps          uint64 // by a server: gaps told to the client
	Waits         uint64 // by a server: clients told that a handler waits
	Pasts         uint64 // by a server: clients told that a number has passed
	Cancels       uint64 // by a server: requests given up by clients
	Lates         uint64 // by a server: answers repeated until they are acknowledged
	Recounts      uint64 // messages counted anew in smaller packets
	CreditStalls  uint64 // times a slot had to wait for credits
	PaceStalls    uint64 // times a session had to wait for its rate
	RateUpdates   uint64 // answers that went to congestion control
	DropPast      uint64 // packet of an earlier request or an earlier packet number
	DropFuture    uint64 // packet ahead of the expected one
	DropUnsent    uint64 // answer to a packet that was not sent, or is rolled back
	DropBusy      uint64 // new request for a slot whose handler still runs
	DropRepeat    uint64 // repeated too often to be answered again
	DropSize      uint64 // sizes that contradict each other

	NoMemory       uint64 // by a server: requests and responses that memory was refused to
	StaleRequests  uint64 // ... unfinished requests that stood still too long
	StaleResponses uint64 // ... responses given up that nobody had asked for in a while
}
