package rfplab

import (
	"time"

	"github.com/userspace-rpc/erpc/rfp/onesided"
	"github.com/userspace-rpc/erpc/rfp/onesided/model"
)

// Echo describes calls without a protocol, as HERD's paper measures them: a client puts a request
// into the server's memory, a thread of the server sees it there and puts a response into the
// client's. Nobody waits for an operation to complete. Each client has one connection, and the
// server thread of its number.
type Echo struct {
	Params            model.Params
	Clients, Machines int
	Servers           int // threads
	Window            int // calls of a client under way
	Request, Response int // bytes, 8 or more
	Sends             [2]bool
	Work              time.Duration // of the server for a call, beside the post of its response
	Seed              uint64
}

// EchoResult has the measurements of a run.
type EchoResult struct {
	Rate float64 // calls per second
	Mean time.Duration
}

// echoSpan is the virtual time of a run that counts, after half as much that does not.
const echoSpan = 400 * time.Microsecond

// Run carries the calls out.
func (e Echo) Run() (EchoResult, error) {
	net := model.New(e.Params, e.Seed)
	machine := net.Machine(e.Params.Server)
	servers := make([]*echoServer, e.Servers)
	for i := range servers {
		servers[i] = &echoServer{e: &e}
		servers[i].th = machine.Thread(servers[i].step)
	}
	hosts := make([]*model.Machine, min(e.Machines, e.Clients))
	for i := range hosts {
		hosts[i] = net.Machine(e.Params.Client)
	}
	var sum echoSum
	for i := range e.Clients {
		c := &echoClient{e: &e, net: net, sum: &sum, begun: make([]model.Time, e.Window)}
		host, s := hosts[i%len(hosts)], servers[i%len(servers)]
		size := e.Window * e.slot()
		specs := []onesided.Spec{{Size: size, Access: onesided.PeerWrites}, {Size: size}}
		x, y, err := model.Connect(host, machine, specs, specs)
		if err != nil {
			return EchoResult{}, err
		}
		if e.Sends[0] {
			x.Datagrams()
		}
		if e.Sends[1] {
			y.Datagrams()
		}
		c.link, s.ends = x, append(s.ends, &echoEnd{link: y})
		c.th = host.Thread(c.step)
		x.Bind(c.th)
		y.Bind(s.th)
		c.th.Wake()
	}
	net.RunUntil(net.Now().Add(echoSpan / 2))
	sum = echoSum{}
	net.RunUntil(net.Now().Add(echoSpan))
	mean := sum.took / time.Duration(max(1, sum.calls))
	return EchoResult{float64(sum.calls) / echoSpan.Seconds(), mean}, sum.err
}

// slot is the room of a message: the larger one, in words.
func (e *Echo) slot() int { return (max(e.Request, e.Response) + 7) &^ 7 }

// echoEnd is one side of a link: its n-th message is in slot n modulo the window, and begins with
// n+1.
type echoEnd struct {
	link *model.Link
	got  int
	b    onesided.Batch
}

// arrived reports whether the next message is there.
func (x *echoEnd) arrived(e *Echo) bool {
	at := x.got % e.Window * e.slot()
	return onesided.Load(x.link.Region(0), at) == uint64(x.got+1)
}

// put sends message n.
func (x *echoEnd) put(e *Echo, n, bytes int) error {
	at := n % e.Window * e.slot()
	onesided.Store(x.link.Region(1), at, uint64(n+1))
	x.b.Reset()
	x.b.Write(1, at, 0, at, bytes, 0, false)
	return x.link.Post(&x.b)
}

type echoSum struct {
	calls int
	took  time.Duration
	err   error
}

type echoClient struct {
	echoEnd
	e     *Echo
	net   *model.Network
	th    *model.Thread
	sum   *echoSum
	sent  int
	begun []model.Time
}

// step takes responses and makes calls.
func (c *echoClient) step(now model.Time) time.Duration {
	for c.got < c.sent && c.arrived(c.e) {
		c.sum.calls++
		c.sum.took += now.Sub(c.begun[c.got%c.e.Window])
		c.got++
	}
	for c.sent-c.got < c.e.Window {
		c.begun[c.sent%c.e.Window] = c.th.Clock()
		if err := c.put(c.e, c.sent, c.e.Request); err != nil {
			c.sum.err = err
			return 0
		}
		c.sent++
	}
	return 0
}

type echoServer struct {
	e    *Echo
	th   *model.Thread
	ends []*echoEnd
	turn int
}

// step answers one call, and looks at the next client then.
func (s *echoServer) step(now model.Time) time.Duration {
	for range s.ends {
		x := s.ends[s.turn]
		s.turn = (s.turn + 1) % len(s.ends)
		if !x.arrived(s.e) {
			continue
		}
		s.th.Spend(s.e.Work)
		_ = x.put(s.e, x.got, s.e.Response) // what fails here the client sees as well
		x.got++
		return s.th.Clock().Sub(now)
	}
	return 0
}
