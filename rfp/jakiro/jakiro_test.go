package jakiro_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/userspace-rpc/erpc/kv/mica"
	"github.com/userspace-rpc/erpc/rfp"
	"github.com/userspace-rpc/erpc/rfp/jakiro"
	"github.com/userspace-rpc/erpc/rfp/onesided/model"
)

var geometry = rfp.Geometry{Slots: 4, Request: 4096, Response: 4096}

// rig is a store with one client on the model.
type rig struct {
	t   testing.TB
	net *model.Network
	srv *rfp.Server
	k   *rfp.Client
}

func newRig(t testing.TB, cfg rfp.Config) *rig {
	t.Helper()
	part, err := mica.New(mica.Config{Memory: 4 << 20, ItemSize: 64, Mode: mica.Store,
		NoHugepages: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = part.Close() })
	r := &rig{t: t, net: model.New(model.Paper(), 1)}
	var store *jakiro.Store
	r.srv, err = rfp.NewServer(rfp.ServerConfig{Geometry: geometry,
		Warm: func(kinds []uint8, reqs [][]byte) { store.Warm(kinds, reqs) }})
	if err != nil {
		t.Fatal(err)
	}
	store = jakiro.Attach(r.srv, part)
	p := r.net.Params()
	x, y, err := model.Connect(r.net.Machine(p.Client), r.net.Machine(p.Server),
		rfp.ClientSpecs(geometry), rfp.ServerSpecs(geometry))
	if err == nil {
		err = r.srv.Serve(y)
	}
	if err != nil {
		t.Fatal(err)
	}
	cfg.Geometry = geometry
	if r.k, err = rfp.NewClient(x, cfg); err != nil {
		t.Fatal(err)
	}
	r.until("server", r.k.Ready)
	return r
}

func (r *rig) until(what string, cond func() bool) {
	r.t.Helper()
	for range 1_000_000 {
		if cond() {
			return
		}
		r.net.Step()
		r.srv.Poll(4)
		r.k.Poll(r.net.Now())
	}
	r.t.Fatalf("no %s: %v", what, r.k.Err())
}

// call makes a call that may wait for others; done gets a copy of the result.
func (r *rig) call(kind uint8, body []byte, done func(resp []byte, err error)) {
	r.t.Helper()
	r.until("room", r.k.Ready)
	err := r.k.Send(&rfp.Call{Kind: kind, Body: body, Done: func(_ uint64, resp []byte, err error) {
		done(bytes.Clone(resp), err)
	}})
	if err != nil {
		r.t.Fatal(err)
	}
}

// one makes a call and waits for it.
func (r *rig) one(kind uint8, body []byte) (resp []byte, err error) {
	r.t.Helper()
	over := false
	r.call(kind, body, func(b []byte, e error) { resp, err, over = b, e, true })
	r.until("end of the call", func() bool { return over })
	return resp, err
}

// TestOracle holds a random mix of requests to a map, alone and in batches.
func TestOracle(t *testing.T) {
	for _, batch := range []int{1, 16} {
		r := newRig(t, rfp.Config{Batch: batch})
		rng := rand.New(rand.NewPCG(uint64(batch), 9))
		shadow := map[string][]byte{}
		open := 0
		for i := range 5000 {
			key := fmt.Appendf(nil, "key %d", rng.IntN(300))
			want, there := shadow[string(key)]
			kind, body := jakiro.Get, key
			switch rng.IntN(4) {
			case 0:
				value := binary.LittleEndian.AppendUint32(make([]byte, rng.IntN(60)), uint32(i))
				kind, body = jakiro.Put, jakiro.AppendPut(nil, key, value)
				shadow[string(key)] = value
			case 1:
				kind = jakiro.Delete
				delete(shadow, string(key))
			}
			open++
			r.call(kind, body, func(resp []byte, err error) {
				open--
				if err != nil {
					t.Errorf("request %d: %v", i, err)
					return
				}
				check(t, i, kind, resp, want, there)
			})
			if i%batch == batch-1 { // messages of different slots may be answered in any order
				r.until("ends of a batch", func() bool { return open == 0 })
			}
		}
		r.until("ends", func() bool { return open == 0 })
	}
}

func check(t *testing.T, i int, kind uint8, resp, want []byte, there bool) {
	t.Helper()
	switch kind {
	case jakiro.Get:
		got, found := jakiro.Value(resp)
		if found != there || !bytes.Equal(got, want) {
			t.Errorf("request %d: GET gave %x, %v, want %x, %v", i, got, found, want, there)
		}
	case jakiro.Put:
		if len(resp) != 1 || resp[0] != 1 {
			t.Errorf("request %d: PUT gave %x", i, resp)
		}
	case jakiro.Delete:
		if len(resp) != 1 || (resp[0] == 1) != there {
			t.Errorf("request %d: DELETE gave %x, want %v", i, resp, there)
		}
	}
}

// TestMalformed holds that bad requests are answered with an error, and harm nothing.
func TestMalformed(t *testing.T) {
	r := newRig(t, rfp.Config{Batch: 8})
	long := bytes.Repeat([]byte{'k'}, mica.MaxKey+1)
	for name, q := range map[string]struct {
		kind uint8
		body []byte
	}{
		"empty GET": {jakiro.Get, nil}, "empty DELETE": {jakiro.Delete, nil},
		"empty PUT": {jakiro.Put, nil},
		"long GET":  {jakiro.Get, long}, "long DELETE": {jakiro.Delete, long},
		"PUT of no key": {jakiro.Put, []byte{0, 1, 2}}, "PUT cut": {jakiro.Put, []byte{200, 1, 2}},
	} {
		if resp, err := r.one(q.kind, q.body); err != rfp.RemoteError(jakiro.ErrRequest.Error()) {
			t.Errorf("%s: %x, %v", name, resp, err)
		}
	}
	if _, err := r.one(99, nil); !errors.Is(err, rfp.ErrNoHandler) {
		t.Errorf("another type: %v", err)
	}
	if resp, err := r.one(jakiro.Put, jakiro.AppendPut(nil, []byte("a"), []byte("b"))); err != nil {
		t.Errorf("PUT afterwards: %x, %v", resp, err)
	}
	resp, err := r.one(jakiro.Get, []byte("a"))
	if v, ok := jakiro.Value(resp); err != nil || !ok || string(v) != "b" {
		t.Errorf("GET afterwards: %x, %v", resp, err)
	}
}

// FuzzRequest gives the store any request.
func FuzzRequest(f *testing.F) {
	f.Add(uint8(2), []byte("\x01ab"))
	f.Add(uint8(1), []byte("a"))
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		if len(body) > geometry.Request-rfp.Entry {
			return
		}
		r := newRig(t, rfp.Config{})
		_, _ = r.one(kind, body)
		if r.k.Err() != nil {
			t.Error(r.k.Err())
		}
	})
}

func ExampleAppendPut() {
	req := jakiro.AppendPut(nil, []byte("key"), []byte("value"))
	fmt.Printf("%q\n", req)
	// Output: "\x03keyvalue"
}
