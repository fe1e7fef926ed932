package measure

import (
	"errors"
	"fmt"
	"net"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// side is a network namespace with one interface in it.
type side struct {
	ns     netns.NsHandle
	handle *netlink.Handle
}

// vethPair is two namespaces joined by a link.
type vethPair struct {
	client, server side
	home           side // where this process was before, without a handle
}

// openPair makes both namespaces and the link between them, up and with addresses. The kernel
// removes them when nobody uses them any more. Errors are a *rightsError or the system's.
func openPair(mtu int) (*vethPair, error) {
	p := &vethPair{client: side{ns: netns.None()}, server: side{ns: netns.None()}}
	var err error
	if p.home.ns, err = netns.Get(); err == nil {
		err = p.client.open()
	}
	if err == nil {
		err = p.server.open()
	}
	if err == nil {
		err = p.join(mtu)
	}
	if err == nil {
		return p, nil
	}
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		err = &rightsError{need: "CAP_SYS_ADMIN and CAP_NET_ADMIN", what: "a pair of network namespaces",
			err: err}
	}
	return nil, errors.Join(err, p.close())
}

// open makes the namespace.
func (s *side) open() error {
	return elsewhere(func() (err error) {
		if s.ns, err = netns.New(); err != nil {
			return err
		}
		s.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		return err
	})
}

// elsewhere runs work, which may change the thread's network namespace, and changes it back.
func elsewhere(work func() error) error {
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer home.Close()
	err = work()
	if now, nerr := netns.Get(); nerr == nil {
		same := now.Equal(home)
		if nerr = now.Close(); same && nerr == nil { // going back takes rights, too
			runtime.UnlockOSThread()
			return err
		}
	}
	if back := netns.Set(home); back != nil {
		return errors.Join(err, back) // still locked: nothing else may run in this thread
	}
	runtime.UnlockOSThread()
	return err
}

// join makes the link and configures both ends.
func (p *vethPair) join(mtu int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = vethName, mtu
	link := &netlink.Veth{LinkAttrs: attrs, PeerName: vethName,
		PeerNamespace: netlink.NsFd(p.server.ns), PeerMTU: uint32(mtu)}
	if err := p.client.handle.LinkAdd(link); err != nil {
		return fmt.Errorf("veth: %w", err)
	}
	return errors.Join(p.client.configure(vethClient), p.server.configure(vethServer))
}

// configure brings the interface up, and loopback, which a process may want.
func (s *side) configure(ip string) error {
	for _, name := range []string{"lo", vethName} {
		l, err := s.handle.LinkByName(name)
		if err == nil && name == vethName {
			err = s.handle.AddrAdd(l,
				&netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(ip), Mask: net.CIDRMask(vethBits, 32)}})
		}
		if err == nil {
			err = s.handle.LinkSetUp(l)
		}
		if err != nil {
			return fmt.Errorf("veth: %s: %w", name, err)
		}
	}
	return nil
}

// enter puts the calling thread into the namespace. The caller has locked itself to it.
func (s *side) enter() error { return netns.Set(s.ns) }

// do runs work in the namespace. Sockets and processes of work stay there.
func (s *side) do(work func() error) error {
	return elsewhere(func() error {
		if err := s.enter(); err != nil {
			return err
		}
		return work()
	})
}

// close removes the link, and the namespaces as soon as nothing is in them.
func (p *vethPair) close() (err error) {
	if h := p.client.handle; h != nil {
		l, lerr := h.LinkByName(vethName)
		if lerr == nil {
			err = h.LinkDel(l)
		}
	}
	for _, s := range []*side{&p.client, &p.server, &p.home} {
		if s.handle != nil {
			s.handle.Close()
		}
		if s.ns.IsOpen() {
			err = errors.Join(err, s.ns.Close())
		}
	}
	return err
}
