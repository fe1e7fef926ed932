package erpc_test

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// closedPort returns an address of this machine at which nobody listens.
func closedPort(t *testing.T, ip string) string {
	c, err := net.ListenPacket("udp", ip+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.LocalAddr().String()
}

// TestDialWhereNobodyListens: the kernel says that nobody listens, and Dial fails though it would
// try for an hour, in the clear and with a key.
func TestDialWhereNobodyListens(t *testing.T) {
	checkLeaks(t)
	ips := []string{"127.0.0.1"}
	if _, err := os.Stat("/proc/net/if_inet6"); err == nil {
		ips = append(ips, "[::1]")
	}
	for _, ip := range ips {
		for name, cfg := range map[string]erpc.Config{
			"clear": {}, "sealed": {PSK: [][]byte{make([]byte, 32)}},
		} {
			cfg.Timing.ConnectTimeout = time.Hour
			at := closedPort(t, ip)
			ctx, cancel := context.WithTimeout(bg, time.Minute)
			_, err := erpc.Dial(ctx, listen(t, ip+":0"), at, cfg)
			cancel()
			is(t, ip+" "+name, err, erpc.ErrConnect, erpc.ErrNotRun)
			if err != nil && !strings.Contains(err.Error(), "nobody listens at the server's port") {
				t.Error(err)
			}
		}
	}
}

// twoOf is a transport that knows one name, with two addresses.
type twoOf struct {
	*udp.Conn
	all []transport.Addr
}

func (n *twoOf) Resolve(string) (transport.Addr, error) { return n.all[1], nil }
func (n *twoOf) Addrs(string) []transport.Addr          { return n.all }

// TestDialOfTwoFamilies: a name has an address of IPv6, where nobody listens, and one of IPv4.
func TestDialOfTwoFamilies(t *testing.T) {
	checkLeaks(t)
	at := newRig(t, erpc.Config{}).serve(t, "127.0.0.1:0")
	tr := &twoOf{Conn: listen(t, "[::]:0")}
	for _, text := range []string{closedPort(t, "[::1]"), at} {
		to, err := tr.Conn.Resolve(text)
		is(t, "resolve", err, nil)
		tr.all = append(tr.all, to)
	}
	ctx, cancel := context.WithTimeout(bg, time.Minute)
	defer cancel()
	c, err := erpc.Dial(ctx, tr, "name", erpc.Config{Timing: erpc.Timing{ConnectTimeout: time.Hour}})
	is(t, "dial", err, nil)
	defer c.Close()
	_, err = c.Call(ctx, typeEcho, []byte("x"))
	is(t, "call", err, nil)
}
