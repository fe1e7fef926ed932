package jakiro_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/userspace-rpc/erpc/kv/mica"
	"github.com/userspace-rpc/erpc/rfp"
	"github.com/userspace-rpc/erpc/rfp/jakiro"
)

// TestLargeBatches sends messages of more requests than the store warms at once, with some among
// them that are malformed.
func TestLargeBatches(t *testing.T) {
	for _, batch := range []int{31, 32, 33, 64, 65, 100} {
		r := newRig(t, rfp.Config{Batch: batch, BatchBytes: geometry.Request})
		ended := 0
		for i := range batch {
			kind, body, want := jakiro.Get, binary.LittleEndian.AppendUint32(nil, uint32(i)), byte(0)
			if i%2 == 1 {
				kind, body, want = jakiro.Put, jakiro.AppendPut(nil, body, nil), 1
			}
			bad := i%7 == 3
			if bad {
				kind, body = jakiro.Put, []byte{9}
			}
			r.call(kind, body, func(resp []byte, err error) {
				ended++
				switch {
				case bad && err != rfp.RemoteError(jakiro.ErrRequest.Error()),
					!bad && (err != nil || len(resp) != 1 || resp[0] != want):
					t.Errorf("request %d of %d: %x, %v", i, batch, resp, err)
				}
			})
		}
		r.until("ends of a batch", func() bool { return ended == batch })
		if st := r.srv.Stats(); st.Messages != 1 || st.Requests != uint64(batch) {
			t.Errorf("%+v, want a message of %d requests", st, batch)
		}
	}
}

// TestSizes takes the least and the largest keys, and values without bytes, through all requests.
func TestSizes(t *testing.T) {
	r := newRig(t, rfp.Config{})
	for _, n := range []int{mica.MinKey, mica.MaxKey} {
		for _, value := range []string{"", "v"} {
			key := bytes.Repeat([]byte{'k'}, n)
			body := jakiro.AppendPut(nil, key, []byte(value))
			if resp, err := r.one(jakiro.Put, body); err != nil || len(resp) != 1 || resp[0] != 1 {
				t.Errorf("PUT, key of %d bytes, value %q: %x, %v", n, value, resp, err)
			}
			resp, err := r.one(jakiro.Get, key)
			if got, ok := jakiro.Value(resp); err != nil || !ok || string(got) != value {
				t.Errorf("GET, key of %d bytes: %q, %v, %v, want %q", n, got, ok, err, value)
			}
			for _, there := range []byte{1, 0} {
				resp, err := r.one(jakiro.Delete, key)
				if err != nil || len(resp) != 1 || resp[0] != there {
					t.Errorf("DELETE, key of %d bytes: %x, %v, want %d", n, resp, err, there)
				}
			}
			resp, err = r.one(jakiro.Get, key)
			if got, ok := jakiro.Value(resp); err != nil || ok || len(resp) != 1 {
				t.Errorf("GET after DELETE: %q, %v, %v", got, ok, err)
			}
		}
	}
	if v, ok := jakiro.Value(nil); ok || v != nil {
		t.Errorf("the value of no result is %q, %v", v, ok)
	}
}

// TestSplitPut holds the bounds of a PUT's request: its key has a byte at least, and is all there.
func TestSplitPut(t *testing.T) {
	for _, c := range []struct {
		req, key, value string
		ok              bool
	}{
		{"", "", "", false}, {"\x00", "", "", false}, {"\x00v", "", "", false},
		{"\x01", "", "", false}, {"\x01k", "k", "", true}, {"\x01kv", "k", "v", true},
		{"\x02k", "", "", false}, {"\x02kk", "kk", "", true},
	} {
		key, value, ok := jakiro.SplitPut([]byte(c.req))
		if string(key) != c.key || string(value) != c.value || ok != c.ok {
			t.Errorf("%q: %q, %q, %v", c.req, key, value, ok)
		}
	}
}
