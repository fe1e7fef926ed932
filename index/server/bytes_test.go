package server_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/index"
	"github.com/userspace-rpc/erpc/index/client"
	"github.com/userspace-rpc/erpc/index/message"
	"github.com/userspace-rpc/erpc/index/server"
)

// serveBytes runs a server of m until the test ends.
func serveBytes(t *testing.T, m *index.Bytes, cfg server.Config) string {
	t.Helper()
	return serveWith(t, server.NewBytes(m, cfg).Handle)
}

func dialBytes(t *testing.T, addrs ...string) *client.Bytes {
	t.Helper()
	var ranges client.Ranges[client.Caller]
	for i, a := range addrs {
		var from []byte
		if i > 0 {
			from = fmt.Appendf(nil, "key %d", 10*i/len(addrs))
		}
		ranges = append(ranges, client.Range[client.Caller]{From: from, Server: dial(t, a)})
	}
	c, err := client.NewBytes(ranges)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestBytes: values of many lengths, from none to several packets, over one server and over two.
func TestBytes(t *testing.T) {
	for name, cfg := range configs {
		t.Run(name, func(t *testing.T) {
			sameAsBytes(t, dialBytes(t, serveBytes(t, index.NewBytes(), cfg)))
		})
	}
	t.Run("two servers", func(t *testing.T) {
		sameAsBytes(t, dialBytes(t, serveBytes(t, index.NewBytes(), server.Config{}),
			serveBytes(t, index.NewBytes(), server.Config{})))
	})
}

func sameAsBytes(t *testing.T, c *client.Bytes) {
	t.Helper()
	ctx, m, r := t.Context(), index.NewBytes(), rand.New(rand.NewPCG(1, 2))
	same := func(v []byte, ok bool, err error) func([]byte, bool, error) {
		return func(v2 []byte, ok2 bool, err2 error) {
			t.Helper()
			if !bytes.Equal(v, v2) || ok != ok2 || err != nil || err2 != nil {
				t.Fatalf("%d bytes %v %v, want %d %v %v", len(v2), ok2, err2, len(v), ok, err)
			}
		}
	}
	for i := range 600 {
		key := fmt.Appendf(nil, "key %d", r.IntN(100))
		value := bytes.Repeat([]byte{byte(i)}, r.IntN(1<<r.IntN(14)))
		switch r.IntN(8) {
		case 0, 1, 2:
			same(m.Put(key, value))(c.Put(ctx, key, value))
		case 3:
			same(m.PutIfAbsent(key, value))(c.PutIfAbsent(ctx, key, value))
		case 4:
			v, ok := m.Delete(key)
			same(v, ok, nil)(c.Delete(ctx, key))
		default:
			v, ok := m.Get(key)
			same(v, ok, nil)(c.Get(ctx, key))
		}
	}
	for _, n := range []uint64{0, 1, 30, 1e9} {
		var got, want []byte
		seen, err := c.Scan(ctx, []byte("key 2"), n, func(k, v []byte) bool {
			got = message.AppendBytesEntry(got, k, v)
			return true
		})
		count := uint64(0)
		for k, v := range m.Ascend([]byte("key 2")) {
			if count == n {
				break
			}
			want = message.AppendBytesEntry(want, k, v)
			count++
		}
		if err != nil || seen != count || !bytes.Equal(got, want) {
			t.Errorf("scan of %d: %d keys, %v, want %d", n, seen, err, count)
		}
	}
}

// TestBytesPages: a scan of large values comes in answers of bounded size.
func TestBytesPages(t *testing.T) {
	m := index.NewBytes()
	value := make([]byte, message.MaxBytesPage/4)
	for i := range 20 {
		if _, _, err := m.Put([]byte{byte(i)}, value); err != nil {
			t.Fatal(err)
		}
	}
	addr := serveBytes(t, m, server.Config{})
	req, _ := message.Page{Count: 1e9}.Append(nil)
	resp, err := dial(t, addr).Call(t.Context(), message.ScanBytes, req)
	if err != nil || len(resp) > 2*message.MaxBytesPage {
		t.Fatalf("%d bytes, %v", len(resp), err)
	}
	if e, err := message.ParseBytesEntries(resp); err != nil || !e.More() {
		t.Errorf("more is %v, %v", e.More(), err)
	}
	seen, err := dialBytes(t, addr).Scan(t.Context(), nil, 1e9, func(_, v []byte) bool {
		return len(v) == len(value)
	})
	if seen != 20 || err != nil {
		t.Errorf("%d keys, %v", seen, err)
	}
}

// TestBadBytes: a request that is too large, or malformed, gets its name, and nothing is stored.
func TestBadBytes(t *testing.T) {
	for name, cfg := range configs {
		t.Run(name, func(t *testing.T) {
			m := index.NewBytes()
			addr := serveBytes(t, m, cfg)
			c, rpc := dialBytes(t, addr), dial(t, addr)
			long, large := make([]byte, index.MaxKey+1), make([]byte, message.MaxValue+1)
			if _, _, err := c.Put(t.Context(), nil, large); !errors.Is(err, message.ErrValueTooLarge) {
				t.Errorf("a large value: %v", err)
			}
			if _, _, err := c.Put(t.Context(), long, nil); !errors.Is(err, index.ErrKeyTooLong) {
				t.Errorf("a long key: %v", err)
			}
			for _, bad := range []struct {
				typ uint8
				req []byte
			}{{message.GetBytes, long}, {message.DeleteBytes, long}, {message.PutBytes, nil},
				{message.PutBytes, []byte{2, 0}}, {message.AbsentBytes, []byte{255}},
				{message.PutBytes, append([]byte{0}, large...)}, {message.ScanBytes, long[:4]},
				{message.ScanBytes, []byte{1, 0, 0, 0, 2}}} {
				_, err := rpc.Call(t.Context(), bad.typ, bad.req)
				var e *erpc.Error
				if !errors.As(err, &e) || e.Code != erpc.CodeInvalidArgument {
					t.Errorf("type %d with %d bytes: %v", bad.typ, len(bad.req), err)
				}
			}
			if m.Len() != 0 {
				t.Error("a bad request was applied")
			}
			if _, there, err := c.Get(t.Context(), nil); there || err != nil {
				t.Errorf("afterwards: %v, %v", there, err)
			}
		})
	}
}
