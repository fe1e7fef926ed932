package ud

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/userspace-rpc/erpc/internal/verbs"
)

// place is where an endpoint sits: a port of a device, and a GID of it.
type place struct {
	device string
	port   int
	attr   verbs.PortAttr
	gid    verbs.GIDEntry
}

// site is one port of this machine.
type site struct {
	device string
	port   int
	attr   verbs.PortAttr
	gids   []verbs.GIDEntry
}

// sites looks at all ports of this machine.
func sites() ([]site, error) {
	names, err := verbs.Devices()
	if err != nil {
		return nil, unsupported(err)
	}
	slices.Sort(names) // the library's order changes when a device comes back
	var list []site
	for _, name := range names {
		d, err := verbs.Open(name)
		if err != nil {
			continue // gone meanwhile, or not ours
		}
		if a, err := d.Attr(); err == nil {
			for port := 1; port <= int(a.Ports); port++ {
				s := site{device: name, port: port}
				if s.attr, err = d.Port(port); err == nil {
					s.gids, _ = d.GIDs(port)
					list = append(list, s)
				}
			}
		}
		d.Close()
	}
	return list, nil
}

// kinds of GIDs, as cards name them. Peers must be of one kind.
const (
	kindIB = iota
	kindRoCE1
	kindRoCE2v4
	kindRoCE2v6
)

// kind says what g is on a port of that link layer.
func kind(l verbs.LinkLayer, g verbs.GIDEntry) byte {
	switch {
	case l == verbs.InfiniBand:
		return kindIB
	case strings.HasSuffix(g.Type, "v1"):
		return kindRoCE1
	case g.GID.Is4():
		return kindRoCE2v4
	}
	return kindRoCE2v6
}

// choose picks the place that the configuration and the listening address ask for. host is
// invalid or unspecified if the address names none.
func choose(all []site, c *Config, host netip.Addr) (place, error) {
	left, err := narrow(all, c)
	if err != nil {
		return place{}, err
	}
	host = host.Unmap()
	anyHost := !host.IsValid() || host.IsUnspecified()
	best, rank := place{}, -1
	for _, s := range left {
		for _, g := range s.gids {
			r := 0
			switch {
			case c.GID != "" && !named(g, c.GID):
				continue
			case c.GID == "" && !anyHost && g.GID.Addr().WithZone("") == host.WithZone("") &&
				s.attr.LinkLayer == verbs.Ethernet:
				r = 10
			case c.GID == "" && !anyHost && c.Device == "" && s.attr.LinkLayer == verbs.Ethernet:
				continue // the address must be one of this device
			}
			if r += preference(s.attr.LinkLayer, g); r > rank {
				best, rank = place{s.device, s.port, s.attr, g}, r
			}
		}
	}
	switch {
	case rank >= 0:
		return best, nil
	case c.GID != "":
		return place{}, &ConfigError{"GID", c.GID, list(left), ErrNoGID}
	case !anyHost:
		return place{}, &ConfigError{"addr", host, list(left), ErrNoGID}
	}
	return place{}, &ConfigError{"Device", left[0].device, list(left), ErrNoGID}
}

// preference orders GIDs where nothing else does: RoCE v2 before v1, IPv4 before IPv6, and
// addresses that reach far before link-local ones.
func preference(l verbs.LinkLayer, g verbs.GIDEntry) int {
	switch kind(l, g) {
	case kindRoCE2v4:
		return 4
	case kindRoCE2v6:
		if g.GID.Addr().IsLinkLocalUnicast() {
			return 2
		}
		return 3
	case kindIB:
		return 1
	}
	return 0
}

// narrow returns the ports that Device and Port leave and that are active.
func narrow(all []site, c *Config) ([]site, error) {
	if len(all) == 0 {
		return nil, &ConfigError{"Device", c.Device, "this machine has none", ErrNoDevice}
	}
	var names []string
	var device, active []site
	for _, s := range all {
		names = append(names, s.device)
		if c.Device == "" || s.device == c.Device {
			device = append(device, s)
		}
	}
	if len(device) == 0 {
		return nil, &ConfigError{"Device", c.Device, "there is " + strings.Join(names, ", "), ErrNoDevice}
	}
	found := false
	for _, s := range device {
		if c.Port != 0 && s.port != c.Port {
			continue
		}
		found = true
		if s.attr.State == verbs.PortActive {
			active = append(active, s)
		}
	}
	switch {
	case !found:
		return nil, &ConfigError{"Port", c.Port, fmt.Sprintf("there are %d", len(device)), ErrNoPort}
	case len(active) == 0 && c.Port != 0:
		return nil, &ConfigError{"Port", c.Port, "check link and cable", ErrPortDown}
	case len(active) == 0:
		return nil, &ConfigError{"Device", c.Device, "check link and cable", ErrPortDown}
	}
	return active, nil
}

// named reports whether text names g: its index, or the GID itself.
func named(g verbs.GIDEntry, text string) bool {
	if i, err := strconv.Atoi(text); err == nil {
		return i == g.Index
	}
	ip, err := netip.ParseAddr(text)
	return err == nil && ip.WithZone("").As16() == g.GID
}

// list names the GIDs there are, for error messages.
func list(all []site) string {
	var b strings.Builder
	b.WriteString("there is")
	for _, s := range all {
		for _, g := range s.gids {
			fmt.Fprintf(&b, " %s/%d[%d]=%v", s.device, s.port, g.Index, g.GID)
		}
	}
	return b.String()
}

// hasGID reports whether the port still has the GID where it was.
func (h *hardware) hasGID() bool {
	all, err := h.dev.GIDs(h.port)
	for _, g := range all {
		if g.Index == h.gid.Index && g.GID == h.gid.GID {
			return true
		}
	}
	return err != nil
}
