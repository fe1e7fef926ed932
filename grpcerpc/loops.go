package grpcerpc

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/auto"
)

// Loops has event loops that ClientConns share. A loop is a transport, a goroutine and, when it is
// busy, a processor: one for each ClientConn is too many. The first ClientConn opens a loop; the
// last one that uses a loop closes it. All ClientConns without WithTransport, WithConfig and
// WithLoops share one Loops.
//
// A Loops has one loop for each eight processors, at least one and at most four. A ClientConn has
// one of them, of those with the fewest ClientConns.
type Loops struct {
	open   func() (transport.Transport, error)
	config erpc.Config

	mu   sync.Mutex
	list []*sharedLoop
}

// sharedLoop is an event loop and its transport.
type sharedLoop struct {
	*erpc.Loop
	transport transport.Transport
	owner     *Loops
	users     int // under owner.mu
}

// maxLoops bounds the loops of a Loops, and processorsPerLoop is how many each is worth.
const (
	maxLoops          = 4
	processorsPerLoop = 8
)

// defaultLoops are those of ClientConns whose options say nothing of transports.
var defaultLoops = NewLoops(openAuto, erpc.Config{})

func openAuto() (transport.Transport, error) { return auto.Listen(":0", auto.Config{}) }

// NewLoops returns a Loops that opens nothing yet. Open is called once for each loop, which owns
// the transport. Fields of cfg that are zero get the defaults that package doc names.
func NewLoops(open func() (transport.Transport, error), cfg erpc.Config) *Loops {
	return &Loops{open: open, config: withDefaults(cfg)}
}

// acquire returns a loop, which is in use until release.
func (ls *Loops) acquire() (*sharedLoop, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	var best *sharedLoop
	for _, l := range ls.list {
		if !l.Ended() && (best == nil || l.users < best.users) {
			best = l
		}
	}
	most := min(max(runtime.GOMAXPROCS(0)/processorsPerLoop, 1), maxLoops)
	if best == nil || best.users > 0 && len(ls.list) < most {
		tr, err := ls.open()
		if err != nil {
			return nil, fmt.Errorf("grpcerpc: transport: %w", err)
		}
		loop, err := erpc.NewLoop(tr, ls.config)
		if err != nil {
			return nil, fmt.Errorf("grpcerpc: %w", err)
		}
		best = &sharedLoop{Loop: loop, transport: tr, owner: ls}
		ls.list = append(ls.list, best)
	}
	best.users++
	return best, nil
}

// release gives the loop back. The last one closes it.
func (l *sharedLoop) release() error {
	ls := l.owner
	ls.mu.Lock()
	l.users--
	last := l.users == 0
	if last {
		i := slices.Index(ls.list, l)
		ls.list = slices.Delete(ls.list, i, i+1)
	}
	ls.mu.Unlock()
	if last {
		return l.Close()
	}
	return nil
}

// loops returns the Loops that the options ask for. Sessions that credentials make secure are of a
// loop that knows them.
func (cc *ClientConn) loops() (*Loops, error) {
	o := &cc.opts
	_, sealed := o.creds.(*tlsCreds)
	switch own := o.transport != nil || o.configured; {
	case o.loops != nil && own:
		return nil, errors.New("grpcerpc: WithLoops has transport and configuration: " +
			"WithTransport and WithConfig do not go with it")
	case o.loops != nil && sealed:
		return nil, errors.New("grpcerpc: WithLoops has a configuration: for sessions by TLS " +
			"give it Config.TLS, in place of credentials")
	case o.loops != nil:
		return o.loops, nil
	case !own && !sealed && o.keepalive != nil:
		return loopsFor(o.config.Timing), nil
	case !own && !sealed:
		return defaultLoops, nil
	}
	open := o.transport
	if open == nil {
		open = openAuto
	}
	return NewLoops(open, cc.secured()), nil
}
