package measure

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/transport"
)

// Request types of the built-in service.
const (
	TypeEcho    = 1 // response = request
	TypeBench   = 2 // response of as many bytes as the first four of the request say, little-endian
	typeControl = 3 // a control as JSON, a report as JSON
	// background: sleeps for as many microseconds as the first four bytes say, at most a second
	TypeWork = 4
)

// endpoint is one event loop: an Rpc with the built-in service on it.
type endpoint struct {
	rpc    *erpc.Rpc
	flags  *NetFlags
	core   int
	stop   *atomic.Bool
	served uint64

	closeNexus          func() error // when the Rpc has been closed
	unwatch             func()       // ends observe, if it was called
	scrapes             atomic.Int64 // that observe made
	allowRaw, allowLoad bool
	siblings            []string // addresses of all the process's endpoints
	raw                 *rawServer
	load                *load          // this side's requests
	loadTo              transport.Addr // where a server's load goes
}

// openEndpoint makes an endpoint on tr, which it owns.
func openEndpoint(f *NetFlags, tr transport.Transport, core int,
	stop *atomic.Bool) (*endpoint, error) {
	ep := &endpoint{flags: f, core: core, stop: stop}
	nexus, err := f.newNexus(ep.echo, ep.bench, ep.control)
	if err != nil {
		return nil, errors.Join(err, tr.Close())
	}
	ep.closeNexus = nexus.Close
	ep.rpc, err = nexus.NewRpc(tr)
	if err != nil {
		return nil, errors.Join(err, nexus.Close())
	}
	ep.observe()
	return ep, nil
}

// newNexus makes a Nexus with the built-in service.
func (f *NetFlags) newNexus(echo, bench, control erpc.Handler) (*erpc.Nexus, error) {
	cfg := f.Config()
	cfg.LockThread = f.OwnCore
	// A loop that sleeps asks its stop function only after it woke; a session can end
	// by a timer, without a packet.
	cfg.OnSession = func(r *erpc.Rpc, _ *erpc.Session, _ erpc.SessionEvent) { r.Wake() }
	nexus, err := erpc.NewNexus(cfg)
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		nexus.Register(TypeEcho, erpc.Dispatch, echo), nexus.Register(TypeBench, erpc.Dispatch, bench),
		nexus.Register(typeControl, erpc.Dispatch, control),
		nexus.Register(TypeWork, erpc.Background, work))
	if err != nil {
		return nil, errors.Join(err, nexus.Close())
	}
	return nexus, nil
}

func (ep *endpoint) close() error {
	if ep.load != nil {
		ep.load.free()
	}
	if ep.unwatch != nil {
		ep.unwatch()
	}
	err := ep.rpc.Close()
	if ep.raw != nil {
		err = errors.Join(err, ep.raw.close())
	}
	return errors.Join(err, ep.closeNexus())
}

// lock ties the caller to its thread and the thread to the endpoint's core and network. Where
// that is not possible it goes on unpinned and says so.
func (ep *endpoint) lock() error {
	runtime.LockOSThread()
	if p := ep.flags.pair; p != nil {
		if err := p.client.enter(); err != nil {
			return fmt.Errorf("network namespace: %w", err)
		}
	}
	if ep.core < 0 {
		return nil
	}
	if err := cli.PinThread(ep.core); err != nil {
		return fmt.Errorf("--pin: core %d: %w; this process may use %v", ep.core, err, allowedCores())
	}
	return nil
}

// leave takes the thread out of a network namespace that lock put it into: a thread that outlives
// its goroutine, as a process's first one does, must not keep it.
func (ep *endpoint) leave() error {
	if ep.flags.pair == nil {
		return nil
	}
	return ep.flags.pair.home.enter()
}

func (ep *endpoint) echo(h erpc.ReqHandle) {
	data := h.Data()
	ep.respond(h, len(data), data)
}

func (ep *endpoint) bench(h erpc.ReqHandle) {
	data := h.Data()
	n := len(data)
	if n >= 4 {
		n = int(binary.LittleEndian.Uint32(data))
	}
	ep.respond(h, n, data)
}

// respond answers with n bytes that begin like data, the request's.
func (ep *endpoint) respond(h erpc.ReqHandle, n int, data []byte) {
	ep.served++
	buf, err := h.Alloc(n)
	if err != nil {
		_ = h.RespondError(err)
		return
	}
	copy(buf.Data(), data)
	if h.Respond(buf) != nil {
		buf.Free()
	}
}

func work(h erpc.ReqHandle) {
	var d time.Duration
	if b := h.Data(); len(b) >= 4 {
		d = min(time.Second, time.Duration(binary.LittleEndian.Uint32(b))*time.Microsecond)
	}
	time.Sleep(d)
	_ = h.RespondBytes(nil)
}

// control is one order of the client's to the peer's thread.
type control struct {
	Op       string `json:"op"` // stats, raw, rawoff, load, unload
	RespSize int    `json:"resp_size,omitempty"`
	Raw      string `json:"raw,omitempty"` // kind of raw server
	Load     Shape  `json:"load"`
}

// report is the answer to every control.
type report struct {
	Error       string        `json:"error,omitempty"`
	Addrs       []string      `json:"addrs,omitempty"`    // of all threads
	RawAddr     string        `json:"raw_addr,omitempty"` // of the raw server
	CPU         time.Duration `json:"cpu_ns"`             // of the process
	Served      uint64        `json:"served"`
	Retransmits uint64        `json:"retransmits"`
	RawBytes    uint64        `json:"raw_bytes"`
	Memory      footprint     `json:"memory"` // of the process; for "memory"
	Done        uint64        `json:"done"`   // by the load on this side
	Elapsed     time.Duration `json:"elapsed_ns"`
	InFlight    int           `json:"in_flight"` // of the load on this side
}

func (ep *endpoint) control(h erpc.ReqHandle) {
	var c control
	rep := report{}
	err := json.Unmarshal(h.Data(), &c)
	if err == nil {
		err = ep.obey(&c, &rep, h.Peer())
	}
	if err != nil {
		rep.Error = cli.OneLine(err)
	}
	out, _ := json.Marshal(rep) // a struct of numbers and strings
	_ = h.RespondBytes(out)
}

func (ep *endpoint) obey(c *control, rep *report, from transport.Addr) (err error) {
	switch c.Op {
	case "stats":
	case "memory":
		rep.Memory = footprint{heapInUse(), ep.rpc.Stats().Memory}
	case "raw":
		err = ep.startRaw(c)
	case "rawoff":
		if ep.raw != nil {
			rep.RawBytes, rep.Elapsed = ep.raw.bytes, ep.raw.lastAt.Sub(ep.raw.firstAt)
			ep.raw.active = false
		}
	case "load":
		err = ep.startLoad(c.Load, from)
	case "unload":
		if l := ep.load; l != nil {
			rep.Done, rep.Elapsed = l.done, monotime.Now().Sub(l.begun)
			l.stopping = true
		}
	default:
		err = fmt.Errorf("control %q is unknown: the peer is another version; use one of both", c.Op)
	}
	if ep.raw != nil {
		rep.RawAddr = ep.raw.addr
	}
	if ep.load != nil {
		rep.InFlight = ep.load.inFlight
	}
	rep.Addrs, rep.CPU, rep.Served = ep.siblings, cli.ProcessCPU(), ep.served
	rep.Retransmits = ep.rpc.Stats().Protocol.Retransmits
	return err
}

func (ep *endpoint) startLoad(s Shape, to transport.Addr) (err error) {
	if !ep.allowLoad {
		return errors.New("the server does not send requests; start it with --symmetric")
	}
	if s.Window < 1 || s.Window > 1<<16 || s.Sessions < 1 || s.Sessions > 1<<10 || s.Batch < 1 ||
		s.Size < 0 || s.RespSize < 0 {
		return fmt.Errorf("a load is out of range: window %d, sessions %d, batch %d, sizes %d and %d",
			s.Window, s.Sessions, s.Batch, s.Size, s.RespSize)
	}
	if l := ep.load; l != nil && (to != ep.loadTo || s != l.asked || l.dead != nil) {
		if l.inFlight > 0 {
			return errors.New("the server still sends requests to another client; end that one first")
		}
		l.free()
		ep.load = nil
	}
	if ep.load == nil {
		ep.loadTo = to
		if ep.load, err = newLoad(ep.rpc, s,
			func() (*erpc.Session, error) { return ep.rpc.CreateSessionTo(to) }); err != nil {
			ep.load = nil
			return err
		}
	}
	ep.load.begin(false)
	return nil
}

// serve runs the event loop until stop is set.
func (ep *endpoint) serve() error {
	for !ep.stop.Load() {
		var err error
		if ep.raw != nil && ep.raw.active {
			err = ep.serveRaw()
		} else {
			err = ep.rpc.Run(ep.pass)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pass is asked before each pass of the loop whether to leave it.
func (ep *endpoint) pass() bool {
	if ep.load != nil {
		ep.load.now = 0
	}
	return ep.stop.Load() || ep.raw != nil && ep.raw.active
}
