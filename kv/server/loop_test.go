package server_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kv/client"
	"github.com/userspace-rpc/erpc/kv/message"
	"github.com/userspace-rpc/erpc/kv/mica"
	"github.com/userspace-rpc/erpc/kv/server"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// loopOf returns a client of some servers in the thread of an Rpc.
func loopOf(t *testing.T, list ...*rig) (*erpc.Rpc, *client.Loop) {
	t.Helper()
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	nexus, err := erpc.NewNexus(erpc.Config{NoHugepages: true})
	if err != nil {
		t.Fatal(err)
	}
	rpc, err := nexus.NewRpc(tr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(rpc.Close(), nexus.Close()); err != nil {
			t.Error(err)
		}
	})
	var servers []client.Sessions
	for _, r := range list {
		s := client.Sessions{Name: r.addrs[0]}
		for _, addr := range r.addrs {
			sess, err := rpc.CreateSession(addr)
			if err != nil {
				t.Fatal(err)
			}
			s.Partitions = append(s.Partitions, sess)
		}
		servers = append(servers, s)
	}
	l, err := client.NewLoop(rpc, servers...)
	if err != nil {
		t.Fatal(err)
	}
	return rpc, l
}

// TestLoop: the client of an event loop has thousands of operations under way at two servers, on
// the keys that the client for goroutines finds there.
func TestLoop(t *testing.T) {
	a, b := serve(t, server.Config{Partitions: 3}), serve(t, server.Config{Partitions: 2})
	rpc, l := loopOf(t, a, b)
	const n = 1000
	key := func(i uint64) []byte { return fmt.Append(nil, "key ", i) }
	wait := func() {
		if err := rpc.Run(func() bool { return l.Pending() == 0 }); err != nil {
			t.Fatal(err)
		}
	}
	each := func(op func(i uint64) error) {
		for i := range uint64(n) {
			if err := op(i); err != nil {
				t.Fatal(err)
			}
		}
		wait()
	}
	each(func(i uint64) error {
		return l.Put(key(i), bytes.Repeat(key(i), 3), i, func(r client.Result) {
			if r.Err != nil || r.Version == 0 || r.Tag != i {
				t.Errorf("%+v", r)
			}
		})
	})
	c := connect(t, a.addrs[0], b.addrs[0])
	if got, err := c.Get(t.Context(), key(7)); string(got.Value) != "key 7key 7key 7" {
		t.Error(got, err)
	}
	each(func(i uint64) error {
		return l.Get(key(i), i, func(r client.Result) {
			if r.Err != nil || !bytes.Equal(r.Value.Value, bytes.Repeat(key(i), 3)) {
				t.Errorf("%d: %+v", i, r)
			}
		})
	})
	each(func(i uint64) error {
		return l.Delete(key(i), i, func(r client.Result) {
			if r.Err != nil {
				t.Errorf("%d: %+v", i, r)
			}
		})
	})
	each(func(i uint64) error {
		return l.Get(key(i), i, func(r client.Result) {
			if r.Err != mica.ErrNotFound {
				t.Errorf("%d: %+v", i, r)
			}
		})
	})
	long := make([]byte, mica.MaxValue+1)
	if err := errors.Join(l.Get(nil, 0, nil), l.Delete(long, 0, nil)); !errors.Is(err, mica.ErrKey) {
		t.Error(err)
	}
	err := l.Write(&message.Item{Key: key(1), Value: long}, 0, nil)
	if err != mica.ErrValue || l.Pending() != 0 {
		t.Error(err, l.Pending())
	}
	for _, bad := range [][]client.Sessions{nil, {{Name: "x"}}} {
		if _, err := client.NewLoop(rpc, bad...); !errors.Is(err, client.ErrConfig) {
			t.Error(err)
		}
	}
}
