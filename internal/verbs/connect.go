package verbs

import (
	"net/netip"
	"slices"
	"strings"
	"syscall"
)

// Site is an active port of a device, and the GID under which peers reach it.
type Site struct {
	Device string
	Port   int
	Attr   PortAttr
	GID    GIDEntry
}

// FindSite returns the site that has host as its GID: RoCE v2 before v1. With an invalid or
// unspecified host it returns the first one. Only ports of device are looked at, unless that is
// "". Errors: *MissingError, *Error of ENODEV if there is no such site.
func FindSite(device string, host netip.Addr) (Site, error) {
	names, err := Devices()
	if err != nil {
		return Site{}, err
	}
	slices.Sort(names) // the library's order changes when a device comes back
	var best Site
	for _, name := range names {
		if device != "" && name != device {
			continue
		}
		for _, s := range activeSites(name) {
			h := host.Unmap().WithZone("")
			if h.IsValid() && !h.IsUnspecified() && s.GID.GID.Addr() != h {
				continue
			}
			if best.Device == "" || s.prefer() > best.prefer() {
				best = s
			}
		}
	}
	if best.Device == "" {
		return best, &Error{Op: "ibv_query_gid", Err: syscall.ENODEV}
	}
	return best, nil
}

// prefer orders sites where the address decides nothing.
func (s *Site) prefer() int {
	switch {
	case strings.HasSuffix(s.GID.Type, "v1"):
		return 0
	case s.Attr.LinkLayer == InfiniBand:
		return 1
	case s.GID.GID.Is4():
		return 3
	}
	return 2
}

// activeSites returns the sites of a device. One that is gone meanwhile has none.
func activeSites(device string) (list []Site) {
	d, err := Open(device)
	if err != nil {
		return nil
	}
	defer d.Close()
	a, err := d.Attr()
	for port := 1; err == nil && port <= int(a.Ports); port++ {
		pa, err := d.Port(port)
		if err != nil || pa.State != PortActive {
			continue
		}
		gids, err := d.GIDs(port)
		if err != nil {
			continue
		}
		for _, g := range gids {
			list = append(list, Site{device, port, pa, g})
		}
	}
	return list
}

// Way returns how a peer at a GID is reached from here; lid is the peer's, for InfiniBand.
func (s *Site) Way(to GID, lid uint32) AHAttr {
	a := AHAttr{GID: to, DLID: lid, SGID: uint32(s.GID.Index), Port: uint32(s.Port)}
	if s.Attr.LinkLayer == Ethernet {
		a.Global, a.HopLimit = 1, 64
	}
	return a
}

// Link has the parameters that connect two queue pairs of type UC or RC.
type Link struct {
	To      AHAttr // the peer: Site.Way
	QPN     uint32 // the peer's queue pair
	MTU     uint32 // bytes of a packet, the same on both sides: the smaller ActiveMTU
	PSN     uint32 // of the first packet sent: 24 bits, random
	PeerPSN uint32 // the peer's PSN
	Access  Access // what the peer may do to memory of this protection domain
	Reads   uint32 // RC: READs under way at a time, in each direction; 0 is 1
}

// Timers of RC, as ibv_modify_qp(3) encodes them. Soft-RoCE at times waits for the whole timeout
// though nothing was lost, so it is short: 4.096 us << 12 is 17 ms. It also takes 7 retries, the most
// that the field says, for no bound: a queue pair whose peer is in error would retry for ever.
const (
	ackTimeout = 12
	ackRetries = 6
	rnrDelay   = 12 // 0.64 ms
	rnrForever = 7
)

// Connect takes a new queue pair of type UC or RC to the state in which it sends and receives. The
// peer must do the same before it is sent to: RC repeats for 0.1 s, UC drops.
func (q *QP) Connect(l *Link) error {
	reads := max(l.Reads, 1)
	for _, a := range []QPAttr{
		{State: StateInit, Port: l.To.Port, Access: l.Access},
		{State: StateRTR, MTU: l.MTU, DestQPN: l.QPN, RQPSN: l.PeerPSN, MaxServe: reads,
			MinRNR: rnrDelay, AH: l.To},
		{State: StateRTS, SQPSN: l.PSN, MaxReads: reads, Timeout: ackTimeout, Retry: ackRetries,
			RNRRetry: rnrForever},
	} {
		if err := q.Modify(a); err != nil {
			return err
		}
	}
	return nil
}

// Open takes a new queue pair of type UD to the state in which it sends and receives datagrams;
// those with another qkey are dropped.
func (q *QP) Open(port int, qkey uint32) error {
	for _, a := range []QPAttr{
		{State: StateInit, Port: uint32(port), QKey: qkey},
		{State: StateRTR},
		{State: StateRTS},
	} {
		if err := q.Modify(a); err != nil {
			return err
		}
	}
	return nil
}
