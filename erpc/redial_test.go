package erpc_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// directory is a transport that resolves one name to an address that can change.
type directory struct {
	*udp.Conn
	at atomic.Pointer[string]
}

func (d *directory) Resolve(string) (transport.Addr, error) { return d.Conn.Resolve(*d.at.Load()) }

// TestRedialResolves: a Client whose server has come back under the same name with
// another address finds it.
func TestRedialResolves(t *testing.T) {
	checkLeaks(t)
	first, second := newRig(t, erpc.Config{}), newRig(t, erpc.Config{})
	d := &directory{Conn: listen(t, "127.0.0.1:0")}
	addr := first.serve(t, "127.0.0.1:0")
	d.at.Store(&addr)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := erpc.Dial(ctx, d, "server", erpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Call(ctx, typeEcho, []byte("one")); err != nil {
		t.Fatal(err)
	}
	moved := second.serve(t, "127.0.0.1:0")
	d.at.Store(&moved)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	for { // calls fail until the Client has noticed
		if _, err := c.Call(ctx, typeEcho, []byte("two")); err == nil {
			break
		} else if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}
