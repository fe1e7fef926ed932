package rfp

import (
	"errors"
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/rfp/onesided"
)

// Errors of calls.
var (
	ErrBusy      = errors.New("rfp: all slots are in use") // poll, then try again
	ErrTooLarge  = errors.New("rfp: larger than the geometry allows")
	ErrDeadline  = errors.New("rfp: deadline passed") // the handler may have run, or may run yet
	ErrNoHandler = errors.New("rfp: no handler for that type")
	ErrClosed    = onesided.ErrClosed
)

// RemoteError is an error that a handler returned.
type RemoteError string

func (e RemoteError) Error() string { return "rfp: handler: " + string(e) }

// Mode says how results come back.
type Mode uint8

// The modes.
const (
	Hybrid Mode = iota // by measured processor time and retries
	Fetch              // the client READs
	Reply              // the server WRITEs
)

var modeNames = [...]string{"hybrid", "fetch", "reply"}

// String returns the name of the mode.
func (m Mode) String() string { return modeNames[m] }

// First says when the first READ of a message is posted.
type First uint8

// The ways.
const (
	// Paced posts it after 1.5 times the process time reported last for its type.
	Paced First = iota
	// After posts it when the WRITE has ended, as the papers do.
	After
	// Behind posts it with the WRITE, in one doorbell.
	Behind
)

// Defaults, those of RF-RPC's evaluation where it names them.
const (
	DefaultF           = 256
	DefaultR           = 5
	DefaultSwitchAfter = 2
	DefaultSwitchTime  = 7 * time.Microsecond
	DefaultBatchBytes  = 2048
	DefaultReplyAbove  = 8192
	DefaultTolerance   = 0.05
	MaxBatch           = 128 // of the controller
	MaxR               = 1000
)

// Config describes a client.
type Config struct {
	Geometry
	// F is how many bytes of a response the first READ fetches, header included. Default 256.
	F int
	// R is how many READs of a message may find nothing. Default 5.
	R int
	// Mode fixes the mode; Hybrid, the default, chooses.
	Mode Mode
	// First says when the first READ is posted.
	First First
	// SwitchAfter is how many messages in a row change the mode of a type. Default 2.
	SwitchAfter int
	// SwitchTime is the process time from which the server replies; Tune finds it. Default 7 us.
	SwitchTime time.Duration
	// BackTime is the process time below which the client fetches again. Default 0.8 of SwitchTime.
	BackTime time.Duration
	// Paper is RF-RPC's way: the first READ after the WRITE, further ones at once, and a type goes
	// to replies after SwitchAfter messages of more than R retries each, whatever the process time
	// is. Otherwise retries are paced, and process times decide.
	Paper bool
	// Batch is how many calls a message takes at most. Default 1.
	Batch int
	// BatchBytes closes a message. Default 2048.
	BatchBytes int
	// Wait keeps a message open for more calls, at most this long, while more come. 0: until Poll.
	Wait time.Duration
	// Limit, if not 0, adapts the number of calls in a message, up to Batch, so that a share of
	// Tolerance at most takes longer. Tolerance is 0.05 by default.
	Limit     time.Duration
	Tolerance float64
	// ReplyAbove is the size in bytes of messages from which the server replies. Default 8192.
	ReplyAbove int
	// Checksum covers requests with a CRC-32C.
	Checksum bool
	// Epoch, if not 0, is the server's life that the client wants.
	Epoch uint64
}

// fill sets defaults and checks.
func (c *Config) fill() error {
	if err := c.Geometry.Check(); err != nil {
		return err
	}
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.F, DefaultF)
	def(&c.R, DefaultR)
	def(&c.SwitchAfter, DefaultSwitchAfter)
	def(&c.Batch, 1)
	def(&c.BatchBytes, min(DefaultBatchBytes, c.Request))
	def(&c.ReplyAbove, DefaultReplyAbove)
	if c.SwitchTime == 0 {
		c.SwitchTime = DefaultSwitchTime
	}
	if c.BackTime == 0 {
		c.BackTime = c.SwitchTime * 8 / 10
	}
	if c.Tolerance == 0 {
		c.Tolerance = DefaultTolerance
	}
	if c.Paper {
		c.First = After
	}
	return c.check()
}

func (c *Config) check() error {
	bad := func(text string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(text, args...))
	}
	switch {
	case c.F < Overhead || c.F > MaxBody:
		return bad("F is %d, want %d to %d", c.F, Overhead, MaxBody)
	case c.R < 1 || c.R > MaxR:
		return bad("R is %d, want 1 to %d", c.R, MaxR)
	case c.Mode > Reply || c.First > Behind:
		return bad("mode %d, first %d", c.Mode, c.First)
	case c.SwitchAfter < 1 || c.SwitchAfter > 1000:
		return bad("SwitchAfter is %d", c.SwitchAfter)
	case c.BackTime < 0 || c.SwitchTime < c.BackTime:
		return bad("SwitchTime %v, BackTime %v", c.SwitchTime, c.BackTime)
	case c.Batch < 1 || c.Batch > c.Request/entryBytes || c.Batch > c.Response/entryBytes ||
		c.Batch >= 1<<16:
		return bad("a batch of %d in messages of %d and %d bytes", c.Batch, c.Request, c.Response)
	case c.BatchBytes < entryBytes || c.BatchBytes > c.Request:
		return bad("BatchBytes is %d in messages of %d", c.BatchBytes, c.Request)
	case c.Wait < 0 || c.Limit < 0 || c.Tolerance < 0 || c.Tolerance > 1 || c.ReplyAbove < 0:
		return bad("Wait %v, Limit %v, Tolerance %v, ReplyAbove %d",
			c.Wait, c.Limit, c.Tolerance, c.ReplyAbove)
	}
	c.F = min((c.F+7)&^7, stride(c.Response))
	return nil
}

// Sizer chooses the number of calls in a message under a limit of latency (RF-RPC section 4.2).
// The zero value is of no use: see NewSizer.
type Sizer struct {
	size, max   int
	limit       time.Duration
	tolerance   float64
	calls, late int
	since       Time
}

// Window of a Sizer: it decides after so many calls, or after so long.
const (
	sizerCalls = 1000
	sizerSpan  = 10 * time.Millisecond
)

// NewSizer returns a controller that begins with 1 and goes up to most. The share of calls that
// take longer than limit shall be below tolerance.
func NewSizer(most int, limit time.Duration, tolerance float64) Sizer {
	return Sizer{size: 1, max: min(most, MaxBatch), limit: limit, tolerance: tolerance}
}

// Size returns how many calls a message takes now.
func (s *Sizer) Size() int { return s.size }

// Add counts a call that ended at now and took d.
func (s *Sizer) Add(now Time, d time.Duration) {
	if s.calls == 0 {
		s.since = now
	}
	s.calls++
	if d > s.limit {
		s.late++
	}
	if s.calls < sizerCalls && now.Sub(s.since) < sizerSpan {
		return
	}
	switch k := float64(s.late) / float64(s.calls); {
	case k > s.tolerance:
		s.size = max(1, s.size-1)
	case k < 0.1*s.tolerance:
		s.size = min(s.max, s.size+1)
	}
	s.calls, s.late = 0, 0
}
