package ud

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/userspace-rpc/erpc/internal/verbs"
	"github.com/userspace-rpc/erpc/transport"
)

func gidOf(ip string) verbs.GID { return netip.MustParseAddr(ip).As16() }

// machine has a RoCE device with two ports and an InfiniBand one.
var machine = []site{
	{"mlx5_0", 1, verbs.PortAttr{State: 1, LinkLayer: verbs.Ethernet},
		[]verbs.GIDEntry{{Index: 0, GID: gidOf("10.0.0.9"), Type: "RoCE v2"}}},
	{"mlx5_0", 2, verbs.PortAttr{State: verbs.PortActive, LinkLayer: verbs.Ethernet}, []verbs.GIDEntry{
		{Index: 0, GID: gidOf("fe80::1"), Type: "IB/RoCE v1"},
		{Index: 1, GID: gidOf("fe80::1"), Type: "RoCE v2"},
		{Index: 2, GID: gidOf("10.0.0.1"), Type: "IB/RoCE v1"},
		{Index: 3, GID: gidOf("10.0.0.1"), Type: "RoCE v2"},
		{Index: 4, GID: gidOf("2001:db8::1"), Type: "RoCE v2"},
		{Index: 5, GID: gidOf("10.0.0.2"), Type: "RoCE v2"}}},
	{"mlx4_0", 1, verbs.PortAttr{State: verbs.PortActive, LinkLayer: verbs.InfiniBand},
		[]verbs.GIDEntry{
			{Index: 0, GID: gidOf("fe80::2"), Type: "IB/RoCE v1"}}},
}

func TestChoose(t *testing.T) {
	for _, v := range []struct {
		cfg  Config
		host string
		want string
		gid  int
		err  error
	}{
		{Config{}, "", "mlx5_0", 3, nil},
		{Config{}, "0.0.0.0", "mlx5_0", 3, nil},
		{Config{}, "10.0.0.2", "mlx5_0", 5, nil},
		{Config{}, "::ffff:10.0.0.2", "mlx5_0", 5, nil},
		{Config{}, "2001:db8::1", "mlx5_0", 4, nil},
		{Config{}, "fe80::1%eth0", "mlx5_0", 1, nil},
		{Config{}, "192.168.0.1", "mlx4_0", 0, nil}, // InfiniBand meets over any address
		{Config{Device: "mlx5_0"}, "192.168.0.1", "mlx5_0", 3, nil},
		{Config{Device: "mlx4_0"}, "10.0.0.1", "mlx4_0", 0, nil},
		{Config{GID: "2"}, "", "mlx5_0", 2, nil},
		{Config{GID: "10.0.0.2"}, "", "mlx5_0", 5, nil},
		{Config{GID: "fe80::1"}, "", "mlx5_0", 1, nil},
		{Config{GID: "9"}, "", "", 0, ErrNoGID},
		{Config{GID: "10.0.0.9"}, "", "", 0, ErrNoGID}, // of a port that is down
		{Config{Device: "x"}, "", "", 0, ErrNoDevice},
		{Config{Device: "mlx4_0", Port: 2}, "", "", 0, ErrNoPort},
		{Config{Device: "mlx5_0", Port: 1}, "", "", 0, ErrPortDown},
	} {
		var host netip.Addr
		if v.host != "" {
			host = netip.MustParseAddr(v.host)
		}
		p, err := choose(machine, &v.cfg, host)
		if p.device != v.want || p.gid.Index != v.gid || !errors.Is(err, v.err) {
			t.Errorf("choose(%+v, %q) = %s GID %d, %v, want %s GID %d, %v", v.cfg, v.host, p.device,
				p.gid.Index, err, v.want, v.gid, v.err)
		}
	}
	if _, err := choose(nil, &Config{}, netip.Addr{}); !errors.Is(err, ErrNoDevice) {
		t.Errorf("a machine without devices: %v", err)
	}
	if _, err := choose(machine[:2], &Config{}, netip.MustParseAddr("192.168.0.1")); !errors.Is(err,
		ErrNoGID) {
		t.Errorf("an address that no RoCE device has: %v", err)
	}
}

func TestComplete(t *testing.T) {
	c := Config{SendRing: 17, MaxInline: -1}
	c.complete()
	if c.SendRing != 32 || c.MaxInline != 0 || c.MaxPeers != defaultPeers ||
		c.MeetTimeout != defaultMeet {
		t.Errorf("%+v", c)
	}
	if class := (&Config{ECN: true, DSCP: 26}).class(); class != 26<<2|2 {
		t.Errorf("class %#x", class)
	}
}

// TestListenWithoutVerbs: where verbs or devices are missing Listen says so.
func TestListenWithoutVerbs(t *testing.T) {
	names, err := verbs.Devices()
	if err == nil && len(names) > 0 {
		t.Skip("this machine has devices")
	}
	c, e := Listen("127.0.0.1:0", Config{})
	switch {
	case c != nil:
		t.Error("an endpoint without a device")
	case err == nil && !errors.Is(e, ErrNoDevice):
		t.Errorf("no device: %v", e)
	case err != nil && (!errors.Is(e, transport.ErrUnsupported) || !errors.Is(e, err)):
		t.Errorf("%v: %v", err, e)
	}
}
