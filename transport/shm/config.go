package shm

import (
	"errors"
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/internal/shmem"
)

// Errors of this transport, beside those of package transport.
var (
	// ErrNameInUse means that a living endpoint has the name already.
	ErrNameInUse = errors.New("shm: name in use")
	// ErrNoEndpoint means that nobody listens under the name or address.
	ErrNoEndpoint = errors.New("shm: no such endpoint")
	// ErrDirectory means that the directory of the endpoints is not safe: others
	// than its owner could put sockets there.
	ErrDirectory = errors.New("shm: unsafe directory")
	// ErrRefused means that the other endpoint does not want the connection.
	ErrRefused = errors.New("shm: connection refused by the other endpoint")
	// ErrHandshake means that the other endpoint does not keep to the protocol, or
	// did not answer in time.
	ErrHandshake = errors.New("shm: handshake failed")
	// ErrLimit means that there are too many peers, see Config.MaxPeers and MaxMemory.
	ErrLimit = errors.New("shm: limit on peers or their memory reached, " +
		"see Config.MaxPeers and MaxMemory")
)

// Limits and defaults of Config.
const (
	DefaultMTU       = 16<<10 - shmem.HeaderSize // bytes; whole cells
	DefaultRing      = 2 << 20                   // bytes
	DefaultMaxPeers  = 1024
	DefaultMaxMemory = 4 << 30 // bytes
	MinMTU           = 64      // bytes
	MaxMTU           = 1<<20 - shmem.HeaderSize
)

const (
	// hostDelay is the hosts' part of a round trip. There is nothing else: no
	// network can be congested, so congestion control is to see nothing.
	hostDelay = time.Millisecond
	// txBatch keeps both sides busy: without it one works while the other waits for a
	// whole burst, in turns.
	txBatch = 24
	// stuckAfter is how long a full ring that does not move holds up TxBurst. A busy
	// machine can keep a healthy reader off its processor for some time slices.
	stuckAfter = 50 * time.Millisecond
	// connectWait is the same for a connection in the making.
	connectWait = time.Second
	// handshakeTime bounds every connection attempt.
	handshakeTime = 5 * time.Second
	// maxHandshakes is how many connections of this user and root may be in the making at a time.
	maxHandshakes = 64
	// maxNewcomers is the same for all other users together.
	maxNewcomers = 256
)

// Config describes an endpoint. The zero Config is a good one.
type Config struct {
	// MTU is the largest packet in bytes; two endpoints use the smaller of theirs.
	// 0 means DefaultMTU.
	MTU int
	// Ring is the size in bytes of each of the two rings of a connection that this
	// endpoint opens: a power of two, and large enough for a few packets of MTU
	// bytes. 0 means DefaultRing. It should hold twice the packets that are under way
	// (those that were received are still held when the answers go out). From about the
	// size of a core's own cache on, large packets move fastest: then their lines do not
	// have to come out of the sender's cache.
	Ring int
	// MaxPeers is the largest number of connections. 0 means DefaultMaxPeers.
	MaxPeers int
	// MaxMemory bounds the memory in bytes of all connections together, made by
	// either side. 0 means DefaultMaxMemory.
	MaxMemory int64
	// Dir is the directory where endpoints meet. It is made with mode 0700 if it does
	// not exist. "" means erpc in $XDG_RUNTIME_DIR if that is this user's, or else erpc-UID in
	// os.TempDir(), or one that begins with erpc-UID- if another user has taken that.
	Dir string
	// AllowOtherUsers accepts connections of processes of other users, in a Dir of root or of this
	// user with any mode that keeps others from removing files there; see the package's doc. One of
	// them gets a quarter of MaxPeers and MaxMemory at most, all together three quarters. Dir must
	// be set then.
	AllowOtherUsers bool
}

// ConfigError says which field of Config is impossible and why.
type ConfigError struct {
	Field  string // name of the field
	Value  int64  // its value
	Reason string
}

// Error implements error.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("shm: Config.%s = %d: %s", e.Field, e.Value, e.Reason)
}

// complete fills in defaults and checks the fields.
func (c Config) complete() (Config, error) {
	setDefault(&c.MTU, DefaultMTU)
	if c.MTU < MinMTU || c.MTU > MaxMTU {
		return c, &ConfigError{"MTU", int64(c.MTU), fmt.Sprintf("must be %d to %d bytes", MinMTU, MaxMTU)}
	}
	least := shmem.MinRingFor(c.MTU)
	setDefault(&c.Ring, max(DefaultRing, least))
	if c.Ring < least || c.Ring > shmem.MaxRing || c.Ring&(c.Ring-1) != 0 {
		return c, &ConfigError{"Ring", int64(c.Ring),
			fmt.Sprintf("must be a power of two from %d to %d", least, shmem.MaxRing)}
	}
	setDefault(&c.MaxPeers, DefaultMaxPeers)
	if c.MaxPeers < 1 || c.MaxPeers > 1<<20 {
		return c, &ConfigError{"MaxPeers", int64(c.MaxPeers), "must be 1 to 1<<20"}
	}
	setDefault(&c.MaxMemory, DefaultMaxMemory)
	if c.MaxMemory < peerMemory(c.Ring) {
		return c, &ConfigError{"MaxMemory", c.MaxMemory, fmt.Sprintf(
			"must be at least %d bytes, for one connection", peerMemory(c.Ring))}
	}
	if !c.AllowOtherUsers {
		return c, nil
	}
	switch least := 4 * peerMemory(c.Ring); {
	case c.Dir == "":
		return c, &ConfigError{"AllowOtherUsers", 1, "needs a Dir that the users share"}
	case c.MaxPeers < 4:
		return c, &ConfigError{"MaxPeers", int64(c.MaxPeers),
			"must be at least 4, of which another user gets a quarter"}
	case c.MaxMemory < least:
		return c, &ConfigError{"MaxMemory", c.MaxMemory, fmt.Sprintf(
			"must be at least %d bytes, of which another user gets a quarter", least)}
	}
	return c, nil
}

func setDefault[T int | int64](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// peerMemory is the size of a connection in bytes: the rings and the two bells.
func peerMemory(ring int) int64 { return int64(shmem.PairSize(ring)) + 2*shmem.BellSize }

// rxRing is how many packets of mtu bytes can wait in a ring for sure: an eighth may be
// read but not freed yet, the end of the ring may be too short for one packet, two blocks
// may be in use for the sake of small packets, and as
// many as wait may still be held by the receiver from the burst before.
func rxRing(ring, mtu int) int {
	cells := shmem.Cells(mtu)
	return max(1, (ring/shmem.CellSize*7/8-cells-2*shmem.Block)/(2*cells))
}
