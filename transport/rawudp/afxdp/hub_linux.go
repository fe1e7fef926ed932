package afxdp

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/userspace-rpc/erpc/transport/rawudp"
	"golang.org/x/sys/unix"
)

// place is a link: its number counts in its network namespace only.
type place struct {
	namespace uint64
	index     int
}

// hub belongs to the endpoints of this process on one link: the program, and the
// packet memory of each queue. It lives as long as one of them does.
type hub struct {
	place
	steer   *steering
	pools   []*pool
	partial bool // the checksums of frames may be incomplete: they were never on a wire
	slots   []bool
	members int
}

// hubs are those of the process. They are opened and closed under the lock, too.
var hubs struct {
	sync.Mutex
	at map[place]*hub
}

// member is one endpoint's part of a hub.
type member struct {
	*hub
	slot  int
	key   portKey
	lanes []*lane // one for each queue
}

// join makes an endpoint on a link. The calling thread's network namespace is the one meant.
func join(l rawudp.Link, local rawudp.Local, cfg Config) (*member, error) {
	var st unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &st); err != nil {
		return nil, fmt.Errorf("afxdp: network namespace: %w", err)
	}
	at := place{st.Ino, l.Index}
	hubs.Lock()
	defer hubs.Unlock()
	h := hubs.at[at]
	if h == nil || !h.alive() { // a dead one is for those that still hold its memory
		var err error
		if h, err = openHub(at, l, cfg); err != nil {
			return nil, err
		}
		if hubs.at == nil {
			hubs.at = map[place]*hub{}
		}
		hubs.at[at] = h
	}
	m, err := h.join(l, local, cfg)
	if err != nil {
		h.put()
		return nil, err
	}
	return m, nil
}

// put closes the hub if nobody uses it.
func (h *hub) put() {
	if h.members > 0 {
		return
	}
	if hubs.at[h.place] == h {
		delete(hubs.at, h.place)
	}
	h.close()
}

func (h *hub) close() {
	if h.steer != nil {
		h.steer.close()
	}
	for _, p := range h.pools {
		p.close()
	}
}

func (h *hub) alive() bool { return h.pools[0].alive() }

// openHub puts the program on the link and opens its queues.
func openHub(at place, l rawudp.Link, cfg Config) (h *hub, err error) {
	h = &hub{place: at, slots: make([]bool, cfg.Endpoints)}
	defer func() {
		if err != nil {
			h.close()
		}
	}()
	if h.steer, err = newSteering(cfg.Endpoints); err != nil {
		return h, err
	}
	mode := cfg.Mode
	if mode == ModeAuto {
		mode = ModeNative
	}
	err = h.try(l, mode, cfg)
	if err != nil && cfg.Mode == ModeAuto && !errors.Is(err, ErrBusy) && !privileges(err) {
		err = h.try(l, ModeGeneric, cfg)
	}
	// In generic mode a whole train of a peer's looks just like a packet with an incomplete checksum.
	h.partial = err == nil && h.steer.mode == ModeNative && virtual(l.Name)
	return h, err
}

// try opens the link in one mode. It leaves nothing if that fails.
func (h *hub) try(l rawudp.Link, mode Mode, cfg Config) error {
	err := h.steer.attach(l.Index, mode)
	if err == nil {
		err = h.openQueues(l, mode, cfg)
	}
	if err == nil {
		return nil
	}
	h.steer.detach()
	switch {
	case privileges(err):
		if _, ok := errors.AsType[*rawudp.PrivilegeError](err); !ok {
			err = &rawudp.PrivilegeError{Need: "CAP_NET_ADMIN and CAP_BPF", For: "XDP program", Err: err}
		}
		return err
	case errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EEXIST): // in this or the other mode
		err = fmt.Errorf("%w: %w", ErrBusy, err)
	case errors.Is(err, unix.ENODEV):
		err = rawudp.ErrLinkGone
	}
	return &rawudp.LinkError{Link: l.Name, Err: fmt.Errorf("XDP in %v mode: %w", mode, err)}
}

// openQueues makes the memory of the queues that the link has.
func (h *hub) openQueues(l rawudp.Link, mode Mode, cfg Config) error {
	flags := uint16(unix.XDP_USE_NEED_WAKEUP)
	if mode == ModeGeneric {
		flags |= unix.XDP_COPY // the driver does not know of the program
	}
	for q := range cfg.Queues {
		p, err := openPool(l.Index, q, cfg.Endpoints, cfg.Ring, flags)
		if q > 0 && errors.Is(err, unix.EINVAL) {
			break // there are no more queues
		}
		if err != nil {
			for _, p := range h.pools {
				p.close()
			}
			h.pools = nil
			return fmt.Errorf("queue %d: %w", q, err)
		}
		h.pools = append(h.pools, p)
	}
	return nil
}

// virtual reports whether frames on the link come from this machine, perhaps with incomplete
// checksums.
func virtual(name string) bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	info, err := unix.IoctlGetEthtoolDrvinfo(fd, name)
	if err != nil {
		return false
	}
	switch unix.ByteSliceToString(info.Driver[:]) {
	case "veth", "802.1Q VLAN Support", "macvlan", "tun", "bridge":
		return true
	}
	return false
}

// join makes an endpoint in a free slot.
func (h *hub) join(l rawudp.Link, local rawudp.Local, cfg Config) (m *member, err error) {
	if cfg.Mode != ModeAuto && cfg.Mode != h.steer.mode {
		return nil, &ConfigError{"Mode", int(cfg.Mode),
			fmt.Sprintf("%s is in %v mode already: take that, or ModeAuto", l.Name, h.steer.mode)}
	}
	m = &member{hub: h, slot: -1, key: keyOf(local)}
	for s, used := range h.slots {
		if !used {
			m.slot = s
			break
		}
	}
	if m.slot < 0 {
		return nil, &rawudp.LinkError{Link: l.Name, Err: ErrFull}
	}
	h.slots[m.slot] = true
	h.members++
	defer func() {
		if err != nil {
			m.leave()
		}
	}()
	for _, p := range h.pools {
		lane, err := openLane(l.Index, m.slot, p)
		if err != nil {
			return nil, err
		}
		m.lanes = append(m.lanes, lane)
		if err := h.steer.sockets.Update(m.at(p), uint32(lane.fd), ebpf.UpdateAny); err != nil {
			return nil, fmt.Errorf("afxdp: %w", os.NewSyscallError("XSKMAP", err))
		}
	}
	// Last: now frames come in.
	if err := h.steer.ports.Update(m.key, uint32(m.slot*MaxQueues), ebpf.UpdateNoExist); err != nil {
		return nil, fmt.Errorf("afxdp: port: %w", err)
	}
	return m, nil
}

// at returns the index of the member's socket on a queue.
func (m *member) at(p *pool) uint32 { return uint32(m.slot*MaxQueues + p.queue) }

// leave ends the member. The caller holds hubs.
func (m *member) leave() {
	if len(m.lanes) == len(m.pools) {
		_ = m.steer.ports.Delete(m.key)
	}
	for _, l := range m.lanes {
		l.close() // which takes it out of the map
	}
	m.slots[m.slot] = false
	m.members--
}

// close ends the member, and the hub with the last one.
func (m *member) close() {
	hubs.Lock()
	defer hubs.Unlock()
	m.leave()
	m.put()
}

// bound reports whether the member's link still exists.
func (m *member) bound() bool { return m.alive() }

func privileges(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)
}

// privilege returns err as a *rawudp.PrivilegeError if it is about rights.
func privilege(err error) error {
	if privileges(err) {
		return &rawudp.PrivilegeError{Need: "CAP_NET_RAW", For: "XDP socket", Err: err}
	}
	return fmt.Errorf("afxdp: %w", err)
}
