package erpc

import (
	crand "crypto/rand"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/userspace-rpc/erpc/erpc/internal/engine"
	"github.com/userspace-rpc/erpc/internal/memsize"
	"github.com/userspace-rpc/erpc/msgbuf"
)

// Mode says where a handler runs (eRPC, section 3.2).
type Mode uint8

const (
	// Dispatch runs the handler in the Rpc's own thread, inside the event loop:
	// for handlers of at most some microseconds.
	Dispatch Mode = iota
	// Background runs the handler in a pool of goroutines: for handlers that
	// compute long or block.
	Background
)

// Handler serves requests of one type. It answers with one of r's Respond methods,
// before it returns or later (nested RPCs).
//
// In Dispatch mode it must not block, and a panic in it is not caught.
type Handler func(r ReqHandle)

type handlerEntry struct {
	fn    Handler // nil for batches
	mode  Mode
	batch uint8 // place in Nexus.batches if mode is batched
	most  int32 // bytes of a response, see Nexus.MaxResponse; 0 if that is not declared
}

func (e *handlerEntry) registered() bool { return e.fn != nil || e.mode == batched }

// Nexus holds what the Rpcs of a process share: the handlers, the background workers
// and the configuration. Make one per process and service (eRPC, section 3.1).
type Nexus struct {
	cfg      Config
	mu       sync.Mutex
	frozen   bool // an Rpc exists: handlers are fixed
	handlers [MaxReqType + 1]handlerEntry
	batches  []BatchHandler
	pool     *workerPool // nil if the config has an Executor
	memory   *engine.Book
	// By request type: what the last large response of a background handler took, less what smaller
	// ones since then say; 0 if there was none. See job.reserve.
	lately [MaxReqType + 1]atomic.Int64
	keys   *engine.Keys // nil if nothing is sealed
	closed bool
	rpcs   int
}

// NewNexus returns a Nexus. The error is a *ConfigError.
func NewNexus(cfg Config) (*Nexus, error) {
	cfg, err := cfg.fill()
	if err != nil {
		return nil, err
	}
	cfg.PSK = clonePSK(cfg.PSK)
	return &Nexus{cfg: cfg, memory: bookOf(&cfg), keys: keysOf(&cfg)}, nil
}

// Register names the handler for requests of reqType, 0 to MaxReqType. All
// handlers are registered before the first Rpc is made, so that no lock guards them.
func (n *Nexus) Register(reqType uint8, mode Mode, fn Handler) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.mayRegister(reqType, fn == nil || mode > Background); err != nil {
		return err
	}
	n.handlers[reqType].fn, n.handlers[reqType].mode = fn, mode
	return nil
}

// mayRegister says why a handler for requests of reqType cannot be registered; bad says that it is
// none.
func (n *Nexus) mayRegister(reqType uint8, bad bool) error {
	switch {
	case reqType > MaxReqType:
		return fmt.Errorf("erpc: register %d: %w", reqType, ErrReqType)
	case bad:
		return fmt.Errorf("erpc: register %d: %w", reqType,
			&ConfigError{"Handler", "is nil, or its mode is neither Dispatch nor Background"})
	case n.frozen:
		return fmt.Errorf("erpc: register %d: %w", reqType,
			&ConfigError{"Handler", "comes after the first Rpc: register it before"})
	case n.handlers[reqType].registered():
		return fmt.Errorf("erpc: register %d: %w", reqType,
			&ConfigError{"Handler", "is registered already: one type has one handler"})
	}
	return nil
}

// MaxResponse declares that responses to requests of reqType have up to so many bytes. Then a
// request of the type runs only with memory for such a response, within Config.MemoryLimit and
// Shares, from the first request on. The others are refused before they run, with an error that
// matches ErrExhausted and ErrNotRun. A response may be larger: it counts as it is then, and
// without memory for it the call ends with ErrExhausted after its handler has run. So it is for
// types whose responses are large, of 64 KiB or more, and about alike.
//
// It comes before the first Rpc, before or after the handler is registered. Errors: ErrReqType, a
// *ConfigError.
func (n *Nexus) MaxResponse(reqType uint8, bytes int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	limit := n.memory.Budget().Limit()
	bad := func(problem string, args ...any) error {
		return fmt.Errorf("erpc: responses of %d: %w", reqType,
			&ConfigError{"MaxResponse", fmt.Sprintf(problem, args...)})
	}
	switch {
	case reqType > MaxReqType:
		return fmt.Errorf("erpc: responses of %d: %w", reqType, ErrReqType)
	case n.frozen:
		return bad("comes after the first Rpc: declare it before")
	case bytes < 0 || bytes > n.cfg.MaxMessage:
		return bad("is %d, must be 0 to MaxMessage, %d", bytes, n.cfg.MaxMessage)
	case int64(bytes) > limit/2:
		return bad("is %d, more than half of MemoryLimit, %d", bytes, limit)
	}
	n.handlers[reqType].most = int32(bytes)
	return nil
}

// Close stops the background workers, after those at work have finished. Close all Rpcs first.
func (n *Nexus) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil
	}
	n.closed = true
	if n.pool != nil {
		n.pool.stop()
	}
	return nil
}

// workers returns the pool that runs background handlers, nil if there are no such handlers. It is
// made with the first Rpc.
func (n *Nexus) workers() *workerPool {
	for i := range n.handlers {
		if n.pool == nil && n.handlers[i].mode == Background {
			limit := n.cfg.Workers
			if limit == 0 {
				limit = n.cfg.MaxBackground
			}
			n.pool = newWorkerPool((*engine.Shares)(&n.cfg.Shares), limit, n.cfg.MaxBackground)
		}
	}
	return n.pool
}

// random returns the source of tokens, nonces and secrets for one Rpc.
func (n *Nexus) random() *rand.Rand {
	n.rpcs++
	var seed [32]byte
	if n.cfg.Simulation.Seed != 0 {
		binary.LittleEndian.PutUint64(seed[:], n.cfg.Simulation.Seed)
		binary.LittleEndian.PutUint64(seed[8:], uint64(n.rpcs))
	} else if _, err := crand.Read(seed[:]); err != nil {
		panic("erpc: no random numbers: " + err.Error()) // crypto/rand says it never returns an error
	}
	return rand.New(rand.NewChaCha8(seed))
}

const (
	// memoryPart is which part of what the process may use message buffers take by default.
	memoryPart = 4
	// unknownMemory is the limit where the system does not say how much there is.
	unknownMemory = 1 << 30
)

// processMemory is the limit of all Nexus whose Config names none.
var processMemory = sync.OnceValue(func() *msgbuf.Budget {
	if all := memsize.Limit(); all > 0 {
		return msgbuf.NewBudget(all / memoryPart)
	}
	return msgbuf.NewBudget(unknownMemory)
})

// bookOf returns the book that a configuration asks for.
func bookOf(c *Config) *engine.Book {
	budget := msgbuf.NewBudget(c.MemoryLimit)
	if c.MemoryLimit == 0 {
		budget = processMemory()
	}
	return engine.NewBook(budget, !c.Shares.Off)
}
