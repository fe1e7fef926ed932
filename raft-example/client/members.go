package client

import (
	"context"
	"net"
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/raft-example/node"
)

// Resolver finds addresses of replicas, such as "10.0.0.1:31850". It is called in a goroutine
// of its own, once at a time.
type Resolver func(ctx context.Context) ([]string, error)

// DNS looks a name up, and puts the port to each of its addresses.
func DNS(name, port string) Resolver {
	return func(ctx context.Context) ([]string, error) {
		hosts, err := net.DefaultResolver.LookupHost(ctx, name)
		for i, h := range hosts {
			hosts[i] = net.JoinHostPort(h, port)
		}
		return hosts, err
	}
}

// server is one address.
type server struct {
	addr string
	sess *erpc.Session
	mute monotime.Time // until then it is not asked by the word of others: it gave no answer

	doubted bool          // its session gave no answer to the last attempt that has ended
	dialed  monotime.Time // when it was dialled anew for that
}

// members holds the addresses of the cluster's members, as far as a client knows them.
type members struct {
	list      []*server     // to be asked in turn
	turn      int           // of reads that go anywhere
	index     uint64        // of the log up to which the cluster's own list is known
	next      monotime.Time // when to ask for it
	asking    *server
	doubt     *server       // a hint leads there, and it gave no answer lately
	after     *server       // the last one that did not tell: the one behind it is asked next
	told      bool          // Config.Members was called
	lost      monotime.Time // since when no attempt came to a leader; 0: the last one did
	silent    int           // attempts without an answer since the last one with
	nextRoots monotime.Time // not before that: the configured servers and the Resolver
	resolving bool
	left      []*server // with sessions that are not used any more, and requests under way
	others    []*server // that Call was given
	done      erpc.Continuation
}

// rootsEvery is how often the Resolver is asked at most.
const rootsEvery = time.Second

// server returns the one with an address.
func (c *Client) server(addr string) *server {
	m := &c.members
	if i := slices.IndexFunc(m.list, func(s *server) bool { return s.addr == addr }); i >= 0 {
		return m.list[i]
	}
	s := &server{addr: addr}
	m.list = append(m.list, s)
	if c.leader == nil {
		c.leader = s
	}
	return s
}

// hinted returns the server of a hint. One that is new means that the members are others.
func (c *Client) hinted(addr string) *server {
	n := len(c.members.list)
	s := c.server(addr)
	if len(c.members.list) > n {
		c.members.next = c.cfg.Clock()
	}
	return s
}

// after lets the next server be asked, unless it is another one already.
func (c *Client) after(s *server) {
	if s == c.leader && len(c.members.list) > 0 {
		c.leader = c.behind(s)
	}
}

// behind returns the server that follows one in the list, which is not empty: the first if that one
// has gone. Those that gave no answer lately come when there is no other.
func (c *Client) behind(s *server) *server {
	list, now := c.members.list, c.cfg.Clock()
	i := slices.Index(list, s)
	for k := range list {
		if next := list[(i+1+k)%len(list)]; now >= next.mute {
			return next
		}
	}
	return list[(i+1)%len(list)]
}

// mute notes an attempt without an answer. For some time nobody's hint leads there: the others name
// a leader that is dead until they elect another one. One that lives is soon found to: see teller.
func (c *Client) mute(s *server) { s.mute = c.cfg.Clock().Add(4 * c.cfg.Attempt) }

// muted reports whether a server, which a hint names, gave no answer lately.
func (c *Client) muted(s *server) bool {
	now := c.cfg.Clock()
	if now >= s.mute {
		return false
	}
	c.members.doubt, c.members.next = s, min(c.members.next, now)
	return true
}

// teller returns the server to ask for the members: the leader, or each in turn while they do not
// tell. Calls that wait for a dead one would have that one asked again and again. One that hints
// lead to comes first, every other time: an answer unmutes it.
func (c *Client) teller() *server {
	m := &c.members
	if s := m.doubt; s != nil && s != m.after {
		m.doubt = nil
		return s
	}
	if m.after != nil && len(m.list) > 0 {
		return c.behind(m.after)
	}
	return c.leader
}

// silent notes an attempt without an answer. When all servers were tried it is time for
// the roots.
func (c *Client) silent() {
	c.stray()
	m := &c.members
	if m.silent++; m.silent < len(m.list) {
		return
	}
	if now := c.cfg.Clock(); now >= m.nextRoots && !c.closed {
		m.silent = 0
		c.roots(now)
	}
}

// stray has the members asked for soon: an attempt did not come to the leader. A replica that has
// left names a leader of its time, or none, and knows the members all the same. One that does not
// know that it has left knows the members of before: after lostAttempts, which no election takes,
// the roots are asked though it answers.
func (c *Client) stray() {
	m, now := &c.members, c.cfg.Clock()
	m.next = min(m.next, now.Add(c.cfg.Attempt))
	if m.lost == 0 {
		m.lost = now
	}
	if now >= m.lost.Add(lostAttempts*c.cfg.Attempt) && now >= m.nextRoots && !c.closed {
		c.roots(now)
	}
}

// lostAttempts is for how many attempts' time no leader must have been found.
const lostAttempts = 4

// roots adds the servers that the configuration names, or finds.
func (c *Client) roots(now monotime.Time) {
	m := &c.members
	m.nextRoots, m.index = now.Add(rootsEvery), 0
	for _, addr := range c.cfg.Servers {
		c.server(addr)
	}
	if c.cfg.Resolver == nil || m.resolving {
		return
	}
	m.resolving = true
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		addrs, err := c.cfg.Resolver(ctx)
		_ = c.rpc.Post(func(*erpc.Rpc) { c.resolved(addrs, err) }) // a closed Rpc needs none
	}()
}

func (c *Client) resolved(addrs []string, err error) {
	m := &c.members
	m.resolving = false
	if err != nil || len(addrs) == 0 {
		if len(m.list) == 0 {
			m.next = c.cfg.Clock().Add(rootsEvery)
		}
		return
	}
	for _, addr := range addrs[:min(len(addrs), node.MaxMembers)] {
		c.server(addr)
	}
	m.next = c.cfg.Clock()
}

// refresh asks for the members when it is time. It reports whether it sent anything.
func (c *Client) refresh(now monotime.Time) (sent bool) {
	m := &c.members
	c.drop()
	if now < m.next || m.asking != nil || c.closed {
		return false
	}
	if c.leader == nil {
		m.next = now.Add(rootsEvery)
		c.roots(now)
		return false
	}
	teller := c.teller()
	s, err := c.session(teller)
	var req *erpc.MsgBuffer
	if err == nil {
		req, err = c.rpc.Alloc(0)
	}
	if err == nil {
		_, err = c.rpc.EnqueueRequest(s, erpc.Request{Type: node.TypeMembers, Req: req, Done: m.done,
			Timeout: c.cfg.Attempt})
		if err != nil {
			req.Free()
		}
	}
	if err != nil {
		c.again(teller)
		return false
	}
	m.asking, m.next = teller, monotime.Never
	return true
}

// again asks another server for the members, soon.
func (c *Client) again(s *server) {
	c.silent()
	c.after(s)
	c.members.after = s
	c.members.next = c.cfg.Clock().Add(max(c.cfg.Attempt, c.cfg.Backoff))
}

// onMembers takes the cluster's list. An older one than what is known comes from a replica that
// lags behind, or that was removed.
func (c *Client) onMembers(d erpc.Completion) {
	m := &c.members
	s := m.asking
	m.asking = nil
	d.Req.Free()
	if d.Err != nil {
		s.doubted = true
		c.again(s)
		return
	}
	s.mute, s.doubted = 0, false
	got, err := node.ParseMembers(d.Resp.Data())
	d.Resp.Free()
	if err != nil || got.Cluster != c.cfg.Cluster || len(got.Addrs) == 0 || got.Index < m.index {
		c.again(s)
		return
	}
	m.after = nil
	m.silent, m.index, m.next = 0, got.Index, c.cfg.Clock().Add(c.cfg.Refresh)
	c.learn(got.Addrs)
}

// learn puts the members in the place of the servers that were known.
func (c *Client) learn(addrs []string) {
	m := &c.members
	same := len(addrs) == len(m.list)
	var list []*server
	for _, addr := range addrs {
		i := slices.IndexFunc(m.list, func(s *server) bool { return s.addr == addr })
		if i >= 0 {
			list = append(list, m.list[i])
			continue
		}
		same = false
		list = append(list, &server{addr: addr})
	}
	for _, s := range m.list {
		if !slices.Contains(list, s) && s.sess != nil {
			m.left = append(m.left, s)
		}
	}
	m.list = list
	if !slices.Contains(list, c.leader) {
		c.leader = list[0]
	}
	if c.cfg.Members != nil && (!same || !m.told) {
		m.told = true
		c.cfg.Members(addrs)
	}
}

// drop closes the sessions that are not used any more when nothing is under way there.
func (c *Client) drop() {
	m := &c.members
	m.left = slices.DeleteFunc(m.left, func(s *server) bool {
		if s.sess.Err() != nil {
			return true
		}
		if out, queued := s.sess.Pending(); out+queued > 0 {
			return false
		}
		_ = c.rpc.CloseSession(s.sess)
		s.sess = nil
		return true
	})
}

// known returns the addresses of the servers to be asked.
func (c *Client) known() (addrs []string) {
	for _, s := range c.members.list {
		addrs = append(addrs, s.addr)
	}
	return addrs
}

// other returns the server with an address that a caller has named: it need be no member.
func (c *Client) other(addr string) *server {
	for _, list := range [][]*server{c.members.list, c.members.others} {
		if i := slices.IndexFunc(list, func(s *server) bool { return s.addr == addr }); i >= 0 {
			return list[i]
		}
	}
	s := &server{addr: addr}
	c.members.others = append(c.members.others, s)
	return s
}
