package erpc

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/wire"
)

// Wait says what an event loop does when it has nothing to do.
type Wait uint8

const (
	// WaitAdaptive spins for Config.SpinFor after the last packet, then sleeps
	// until a packet, a command or a timer comes. It is the default.
	WaitAdaptive Wait = iota
	// WaitSpin never sleeps: lowest latency, one core busy.
	WaitSpin
	// WaitSleep sleeps whenever there is nothing to do: least CPU, and every
	// sleep costs a wake-up (tens of microseconds).
	WaitSleep
)

// Config configures a Nexus and the Rpcs made from it. The zero value works.
type Config struct {
	// Slots is the number of requests in flight per session, rounded down to a
	// power of two; at most MaxSlots. Default 8 (eRPC, section 4.3).
	Slots int
	// Credits is the number of packets in flight per session, at most MaxCredits. Default 0:
	// 32 (eRPC, section 4.3.1), or with packets smaller than 8 KiB as many as make 256 KiB, up
	// to 128 and to a quarter of what the receiving side can hold.
	Credits int
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
	// MaxQueue bounds the requests of one session that wait for a slot. Default 65536.
	MaxQueue int
	// Checksum adds a CRC-32C to every packet, for transports and networks that
	// do not drop damaged packets. Transports that say they do not check get it anyway.
	Checksum bool
	// Timing holds timeouts and heartbeats.
	Timing Timing
	// Congestion chooses and tunes congestion control.
	Congestion Congestion
	// Wait and SpinFor say how an idle event loop waits. SpinFor defaults to 200 us.
	Wait    Wait
	SpinFor time.Duration
	// LockThread makes Run and RunFor lock their goroutine to its OS thread, and
	// not yield to other goroutines while they spin: for loops that have a core of
	// their own. Handing work to goroutines is slower from a locked thread.
	LockThread bool
	// Burst is the number of packets taken in by one pass of the loop. Default 256.
	Burst int
	// Workers is the number of goroutines for background handlers. One address has three quarters
	// of them at most; see Shares. Default: so many that these are 2 * GOMAXPROCS.
	Workers int
	// MaxBackground bounds the background requests of one Rpc that wait or run;
	// more are answered with "resource exhausted". Default 4096.
	MaxBackground int
	// MemoryLimit bounds the memory of message buffers of all Rpcs of the Nexus, in bytes. Default:
	// a quarter of what the process may use, which is the machine's memory or that of its control
	// group, for all Nexus with the default together.
	MemoryLimit int64
	// Shares says what one client's address can have of sessions, workers and memory.
	Shares Shares
	// NoBundles makes each packet a datagram, in sessions of either side. Otherwise the small packets
	// that a burst has for a peer share datagrams, unless the transport does better without.
	NoBundles bool
	// NoHugepages keeps message buffers in ordinary pages even if the machine has
	// huge pages reserved and free.
	NoHugepages bool
	// OnSession is called in the Rpc's thread when a session of either kind
	// comes, fails or goes.
	OnSession func(r *Rpc, s *Session, ev SessionEvent)
	// Logger gets rare events (sessions lost, peers refused). Default: none.
	Logger *slog.Logger

	// Experiment is for measurements, Simulation for simulations. Services leave both zero.
	Experiment Experiment
	Simulation Simulation
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
	// Clock returns the time. Default: the system's monotonic clock.
	Clock func() Time
	// Executor runs background handlers. Default: a pool of Config.Workers goroutines.
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

// fill returns the config with defaults in place of zeros, or a *ConfigError.
func (c Config) fill() (Config, error) {
	for _, f := range []struct {
		v             *int
		def, min, max int
		name          string
	}{
		{&c.Slots, session.DefaultSlots, 1, MaxSlots, "Slots"},
		{&c.Credits, 0, 0, MaxCredits, "Credits"},
		{&c.Waiting, MaxSlots, -1, MaxSlots, "Waiting"},
		{&c.MaxMessage, msgbuf.DefaultMaxMessage, 1, MaxMessage, "MaxMessage"},
		{&c.MaxSessions, 32768, 1, wire.NoSession, "MaxSessions"},
		{&c.MaxQueue, 65536, 1, 1 << 24, "MaxQueue"},
		{&c.Burst, 256, 1, 4096, "Burst"},
		{&c.Workers, (8*gomaxprocs() + 2) / 3, 1, 1 << 16, "Workers"},
		{&c.MaxBackground, 4096, 1, 1 << 20, "MaxBackground"},
	} {
		if *f.v == 0 {
			*f.v = f.def
		}
		if *f.v < f.min || *f.v > f.max {
			return c, &ConfigError{f.name, fmt.Sprintf("is %d, must be %d to %d", *f.v, f.min, f.max)}
		}
	}
	for c.Slots&(c.Slots-1) != 0 {
		c.Slots &= c.Slots - 1
	}
	if c.MTU != 0 && (c.MTU < MinMTU || c.MTU > 1<<16) {
		return c, &ConfigError{"MTU", fmt.Sprintf("is %d, must be %d to %d", c.MTU, MinMTU, 1<<16)}
	}
	if err := c.Congestion.check(); err != nil {
		return c, err
	}
	if c.Wait > WaitSleep {
		return c, &ConfigError{"Wait", "is unknown"}
	}
	if c.SpinFor < 0 {
		return c, &ConfigError{"SpinFor", "is negative"}
	}
	if c.MemoryLimit < 0 {
		return c, &ConfigError{"MemoryLimit", "is negative"}
	}
	if err := c.Shares.fill(); err != nil {
		return c, err
	}
	if c.SpinFor == 0 {
		c.SpinFor = 200 * time.Microsecond
	}
	t, err := session.Timing(c.Timing).Fill()
	if err != nil {
		return c, &ConfigError{"Timing", err.Error()}
	}
	c.Timing = Timing(t)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}
