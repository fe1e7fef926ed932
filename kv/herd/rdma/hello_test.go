package rdma

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/internal/verbs"
)

// site is a RoCE v2 port with an IPv4 address.
func site() *verbs.Site {
	return &verbs.Site{Device: "rxe0", Port: 1, GID: verbs.GIDEntry{
		GID: netip.MustParseAddr("::ffff:10.9.0.1").As16()},
		Attr: verbs.PortAttr{LinkLayer: verbs.Ethernet, ActiveMTU: 4096}}
}

const (
	goodHello = `{"herd":1,"gid":"::ffff:10.9.0.2","layer":2,"mtu":1024,"qpn":17,"psn":5,"qkey":6,` +
		`"design":"herd","ud":18}`
	goodOffer = `{"herd":1,"gid":"::ffff:10.9.0.2","layer":2,"mtu":1024,"qpn":17,"psn":5,"qkey":6,` +
		`"number":3,"partitions":2,"window":16,"slot":1024,"base":4096,"rkey":9,"ud":[18,19]}`
)

// TestHello: what a client says is checked before it is used.
func TestHello(t *testing.T) {
	for _, row := range []struct {
		old, new string
		want     error
	}{
		{"", "", nil}, {`"herd":1`, `"herd":2`, ErrHello}, {"::ffff:10.9.0.2", "x", ErrHello},
		{"::ffff:10.9.0.2", "::1%a", ErrHello}, {"::ffff:10.9.0.2", "fe80::1", ErrMismatch},
		{`"layer":2`, `"layer":1`, ErrMismatch}, {`"mtu":1024`, `"mtu":255`, ErrHello},
		{`"mtu":1024`, `"mtu":4097`, ErrHello}, {`"qpn":17`, `"qpn":16777216`, ErrHello},
		{`"qpn":17`, `"qpn":0`, ErrHello}, {`"ud":18`, `"ud":0`, ErrHello},
		{`"ud":18`, `"ud":16777216`, ErrHello}, {`"psn":5`, `"psn":16777216`, ErrHello},
		{`"design":"herd"`, `"design":"x"`, ErrDesign}, {`"herd":1`, `"herd":"a"`, ErrHello},
		{`"mtu":1024`, `"mtu":-1`, ErrHello}, {goodHello, "\n", ErrHello},
		{goodHello, strings.Repeat(" ", maxLine), ErrHello},
	} {
		var h hello
		err := hear(strings.NewReader(strings.Replace(goodHello, row.old, row.new, 1)+"\n"), &h)
		if err == nil {
			_, err = h.check(site())
		}
		if !errors.Is(err, row.want) {
			t.Errorf("%s: %v, want %v", row.new, err, row.want)
		}
	}
}

// TestOffer: a client does not trust a server.
func TestOffer(t *testing.T) {
	for _, row := range []struct {
		old, new string
		want     error
	}{
		{"", "", nil}, {`"number":3`, `"number":-1`, ErrHello},
		{`"number":3`, `"number":65536`, ErrHello},
		{`"partitions":2`, `"partitions":3`, ErrHello}, {`"partitions":2`, `"partitions":0`, ErrHello},
		{`"window":16`, `"window":1000`, ErrHello}, {`"slot":1024`, `"slot":1025`, ErrHello},
		{`"slot":1024`, `"slot":2048`, ErrMismatch}, {`"qpn":17`, `"qpn":0`, ErrHello},
		{`"herd":1`, `"herd":1,"error":"full"`, ErrRefused}, {`"herd":1`, `"herd":3`, ErrHello},
	} {
		var o offer
		err := hear(strings.NewReader(strings.Replace(goodOffer, row.old, row.new, 1)+"\n"), &o)
		if err == nil {
			_, _, err = o.check(site(), Herd)
		}
		if !errors.Is(err, row.want) {
			t.Errorf("%s: %v, want %v", row.new, err, row.want)
		}
	}
}
