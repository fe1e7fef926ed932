package kv

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
)

// Limits, in bytes: the paper's keys and the largest of its values.
const (
	MaxKey   = 16
	MaxValue = 64
)

// The bounds of Raft's tick. An election begins after 10 to 20 ticks without a leader, and nothing
// changes a tick before there is one.
const (
	MinTick = time.Millisecond
	MaxTick = 500 * time.Millisecond
)

// Op is the operation of a request.
type Op uint8

// The operations. Open makes a session; Get is no entry of the log. Clock comes from the
// leader only: Seq milliseconds have passed since the last one. So does Raise: the cluster's
// version is Format from there on, or stays what it is if that is more. And so does Timing, of
// which the state has nothing: the tick is Seq nanoseconds, MinTick to MaxTick, and the lease
// Session.
const (
	Open Op = 1 + iota
	Get
	Put
	Delete
	CAS
	Clock
	Raise
	Close  // ends a session; format 1
	Timing // format 2
	numOps
)

// String returns the operation's name.
func (o Op) String() string {
	if o == 0 || o >= numOps {
		return fmt.Sprintf("op(%d)", uint8(o))
	}
	return [...]string{"open", "get", "put", "delete", "cas", "clock", "raise", "close",
		"timing"}[o-1]
}

// Status is the outcome of a request.
type Status uint8

// The outcomes. Those from NotLeader on mean that nothing was applied by this attempt,
// except for Retry. An earlier attempt of the same write may have been applied for all that:
// after one without an answer, Expired and Stale leave the outcome unknown.
const (
	OK           Status = 1 + iota
	NotFound            // Get, Delete, CAS: no such key
	Mismatch            // CAS: the value is another one, and in the answer
	NotLeader           // Number is the leader's id, or 0; Value its address
	Retry               // leadership was lost: whether the write is applied is unknown
	Expired             // the session is not known any more
	Stale               // an older write of the session than its last one
	WrongCluster        // the request is for another cluster
	TooLarge            // key or value
	Malformed           // not a request
	Busy                // the leader takes no more now
	Full                // Open: all sessions are in use
	numStatus
)

// The errors that outcomes stand for, for callers; see Status.Err.
var (
	ErrNotFound  = errors.New("kv: no such key")
	ErrMismatch  = errors.New("kv: the value is another one")
	ErrNotLeader = errors.New("kv: not the leader")
	ErrRetry     = errors.New("kv: leadership lost: outcome unknown")
	ErrExpired   = errors.New("kv: session expired: nothing applied by this attempt")
	ErrStale     = errors.New("kv: an older write than the session's last: " +
		"nothing applied by this attempt")
	ErrWrongCluster = errors.New("kv: wrong cluster id: nothing applied")
	ErrTooLarge     = errors.New("kv: key or value too large: nothing applied")
	ErrMalformed    = errors.New("kv: malformed request: nothing applied")
	ErrBusy         = errors.New("kv: too many requests: nothing applied by this attempt")
	ErrFull         = errors.New("kv: all sessions are in use: no session opened")
	ErrAnswer       = errors.New("kv: malformed answer")
)

var statusErrs = [numStatus]error{nil, nil, ErrNotFound, ErrMismatch, ErrNotLeader, ErrRetry,
	ErrExpired, ErrStale, ErrWrongCluster, ErrTooLarge, ErrMalformed, ErrBusy, ErrFull}

// Err returns the error that the outcome stands for, nil for OK.
func (s Status) Err() error {
	if s == 0 || s >= numStatus {
		return ErrAnswer
	}
	return statusErrs[s]
}

// Key is a key, comparable and without pointers, so that a map of them costs the
// garbage collector nothing.
type Key struct {
	n uint8
	b [MaxKey]byte
}

// Value is a value, likewise.
type Value struct {
	n uint8
	b [MaxValue]byte
}

// MakeKey returns b as a Key, or ErrTooLarge, also if it is empty.
func MakeKey[T []byte | string](b T) (k Key, err error) {
	if len(b) == 0 || len(b) > MaxKey {
		return k, fmt.Errorf("%w: key of %d bytes, want 1 to %d", ErrTooLarge, len(b), MaxKey)
	}
	k.n = uint8(copy(k.b[:], b))
	return k, nil
}

// MakeValue returns b as a Value, or ErrTooLarge.
func MakeValue[T []byte | string](b T) (v Value, err error) {
	if len(b) > MaxValue {
		return v, fmt.Errorf("%w: value of %d bytes, at most %d", ErrTooLarge, len(b), MaxValue)
	}
	v.n = uint8(copy(v.b[:], b))
	return v, nil
}

// Bytes returns the key's bytes; they are the key's own.
func (k *Key) Bytes() []byte { return k.b[:k.n] }

// Bytes returns the value's bytes; they are the value's own.
func (v *Value) Bytes() []byte { return v.b[:v.n] }

func (k Key) String() string   { return string(k.b[:k.n]) }
func (v Value) String() string { return string(v.b[:v.n]) }

// Command is a request, or what a leader adds to the log.
type Command struct {
	Op     Op
	Absent bool // CAS: the key shall not exist
	// Anywhere: a Get that any replica may serve, not only the leader. It is linearizable, too.
	Anywhere bool
	Format   uint8 // Raise, Close: from 1 on; Timing: from 2 on; else 0
	Cluster  uint64
	Session  uint64 // the number that Open gave
	Seq      uint64 // of the write in its session, from 1
	Key      Key
	Value    Value
	Old      Value // CAS: what the value shall be
}

const (
	cmdHeader    = 32
	flagAbsent   = 1
	flagAnywhere = 2
	ansHeader    = 16
	// MaxCommand and MaxAnswer are the largest sizes of both in bytes.
	MaxCommand = cmdHeader + MaxKey + 2*MaxValue
	MaxAnswer  = ansHeader + MaxValue
)

// Size returns how many bytes Append appends.
func (c *Command) Size() int { return cmdHeader + int(c.Key.n) + int(c.Value.n) + int(c.Old.n) }

// Append appends the request's bytes to b.
func (c *Command) Append(b []byte) []byte {
	flags := byte(0)
	if c.Absent {
		flags = flagAbsent
	}
	if c.Anywhere {
		flags |= flagAnywhere
	}
	b = append(b, byte(c.Op), flags, c.Key.n, c.Value.n, c.Old.n, c.Format, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, c.Cluster)
	b = binary.LittleEndian.AppendUint64(b, c.Session)
	b = binary.LittleEndian.AppendUint64(b, c.Seq)
	b = append(b, c.Key.Bytes()...)
	b = append(b, c.Value.Bytes()...)
	return append(b, c.Old.Bytes()...)
}

// Whole reports whether b is the bytes of one Put, Delete or CAS, as far as their number is
// concerned: so they may be followed by others in one log entry, and Split finds its end.
func Whole(b []byte) bool {
	return len(b) >= cmdHeader && len(b) == writeSize(b)
}

// Split returns the first command of a log entry, and those behind it. Where no write ends all that
// is left is one command, most often a malformed one.
func Split(b []byte) (first, rest []byte) {
	if len(b) < cmdHeader {
		return b, nil
	}
	n := min(writeSize(b), len(b))
	return b[:n:n], b[n:]
}

// writeSize is the size of the write that begins with b, cmdHeader bytes at least. Of all else it
// is beyond any.
func writeSize(b []byte) int {
	switch Op(b[0]) {
	case Put, Delete, CAS:
		return cmdHeader + int(b[2]) + int(b[3]) + int(b[4])
	}
	return math.MaxInt
}

// ParseCommand reads a request. Errors: ErrMalformed, ErrTooLarge.
func ParseCommand(b []byte) (c Command, err error) {
	err = c.parse(b)
	return c, err
}

// parse is ParseCommand into a zero Command.
func (c *Command) parse(b []byte) error {
	if len(b) < cmdHeader {
		return ErrMalformed
	}
	k, v, o := int(b[2]), int(b[3]), int(b[4])
	if k > MaxKey || v > MaxValue || o > MaxValue {
		return ErrTooLarge
	}
	c.Op, c.Absent, c.Anywhere = Op(b[0]), b[1]&flagAbsent != 0, b[1]&flagAnywhere != 0
	c.Cluster, c.Session = binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])
	c.Seq, c.Format = binary.LittleEndian.Uint64(b[24:]), b[5]
	if b[1] > flagAbsent|flagAnywhere || c.Anywhere && c.Op != Get || c.Format > Format ||
		b[6]|b[7] != 0 || len(b) != cmdHeader+k+v+o || !c.shape(k, v, o) {
		return ErrMalformed
	}
	c.Key.n = uint8(copy(c.Key.b[:], b[cmdHeader:cmdHeader+k]))
	c.Value.n = uint8(copy(c.Value.b[:], b[cmdHeader+k:cmdHeader+k+v]))
	c.Old.n = uint8(copy(c.Old.b[:], b[cmdHeader+k+v:]))
	return nil
}

// shape reports whether the operation has what it needs and nothing else.
func (c *Command) shape(k, v, o int) bool {
	write := c.Session != 0 && c.Seq != 0 && k > 0
	if (c.Op == Raise || c.Op == Close || c.Op == Timing) != (c.Format > 0) {
		return false
	}
	switch c.Op {
	case Close:
		return k+v+o == 0 && !c.Absent && c.Session != 0 && c.Seq == 0
	case Raise:
		return k+v+o == 0 && !c.Absent && c.Session == 0 && c.Seq == 0
	case Timing:
		return k+v+o == 0 && !c.Absent && c.Format >= 2 && c.Seq >= uint64(MinTick) &&
			c.Seq <= uint64(MaxTick)
	case Open:
		return k+v+o == 0 && !c.Absent
	case Clock:
		return k+v+o == 0 && !c.Absent && c.Session == 0
	case Get:
		return k > 0 && v+o == 0 && !c.Absent
	case Put:
		return write && o == 0 && !c.Absent
	case Delete:
		return write && v+o == 0 && !c.Absent
	case CAS:
		return write && (!c.Absent || o == 0)
	}
	return false
}

// Answer is the outcome of a request.
type Answer struct {
	Status Status
	Found  bool   // Value is that of the key, and may be empty; Raise: it was so already
	Number uint64 // Open: the session; NotLeader: the leader's id; Raise: the version
	Value  Value
}

// Append appends the answer's bytes to b.
func (a *Answer) Append(b []byte) []byte {
	flags := byte(0)
	if a.Found {
		flags = 1
	}
	b = append(b, byte(a.Status), flags, a.Value.n, 0, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, a.Number)
	return append(b, a.Value.Bytes()...)
}

// Size returns how many bytes Append appends.
func (a *Answer) Size() int { return ansHeader + int(a.Value.n) }

// ParseAnswer reads an answer. The error is ErrAnswer.
func ParseAnswer(b []byte) (a Answer, err error) {
	if len(b) < ansHeader || b[0] == 0 || b[0] >= byte(numStatus) || b[1] > 1 || b[2] > MaxValue ||
		b[3]|b[4]|b[5]|b[6]|b[7] != 0 || len(b) != ansHeader+int(b[2]) {
		return a, ErrAnswer
	}
	a = Answer{Status: Status(b[0]), Found: b[1] == 1, Number: binary.LittleEndian.Uint64(b[8:])}
	a.Value.n = uint8(copy(a.Value.b[:], b[ansHeader:]))
	return a, nil
}

// Fail returns the answer for an error of ParseCommand.
func Fail(err error) Answer {
	if errors.Is(err, ErrTooLarge) {
		return Answer{Status: TooLarge}
	}
	return Answer{Status: Malformed}
}

// Len returns the size of a value in bytes.
func (v *Value) Len() int { return int(v.n) }
