package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/index"
	"github.com/userspace-rpc/erpc/index/client"
	"github.com/userspace-rpc/erpc/index/message"
	"github.com/userspace-rpc/erpc/kit/loadgen"
	"github.com/userspace-rpc/erpc/labs/benchrows"
)

// The load: sessions with each server, and requests under way in all of them together.
const (
	sessions = 8
	depth    = 64
)

// remote is the client of some servers, in this thread.
type remote struct {
	b        *bench
	end      *loadgen.Endpoint
	rpc      *erpc.Rpc
	children []*benchrows.Child
	servers  map[string][]*client.Loop
	sessions map[string][]*erpc.Session
	asked    [depth]entry
	load     benchrows.Closed
	scanned  func(erpc.Completion)
}

// newRemote starts a server of each kind over a transport, fills b's map, and connects.
func newRemote(b *bench, network, pages string, kinds ...string) (r *remote, err error) {
	r = &remote{b: b, servers: map[string][]*client.Loop{}, sessions: map[string][]*erpc.Session{}}
	r.scanned = r.gotPage
	exe, err := os.Executable()
	if err != nil {
		return r, err
	}
	for _, kind := range kinds {
		c, err := benchrows.StartChild(exe, "-child", kind, "-net", network, "-pages", pages,
			"-keys", fmt.Sprint(len(b.keys)))
		if err != nil {
			return r, err
		}
		r.children = append(r.children, c)
	}
	if b.m == nil { // while the children fill theirs
		m := index.NewMap()
		fill(m, b.keys)
		b.m = m
	}
	// Not before: children inherit it, and fill their maps on all cores.
	benchrows.Pin(benchrows.ClientCore)
	tr, err := listen(network)
	if err != nil {
		return r, err
	}
	if r.end, err = loadgen.Open(tr, erpc.Config{NoHugepages: true}); err != nil {
		return r, err
	}
	r.end.Failed, r.rpc = r.load.Fail, r.end.Rpc
	addrs := make([]string, len(kinds))
	for i, c := range r.children {
		if addrs[i], err = c.Address(); err != nil {
			return r, err
		}
	}
	for i, kind := range kinds {
		for range sessions {
			s, err := r.end.Dial(addrs[i])
			if err != nil {
				return r, err
			}
			l, err := client.NewLoop(r.rpc, client.One(s))
			if err != nil {
				return r, err
			}
			r.servers[kind] = append(r.servers[kind], l)
			r.sessions[kind] = append(r.sessions[kind], s)
		}
	}
	return r, r.end.Wait(context.Background())
}

// close ends everything.
func (r *remote) close() (err error) {
	if r.end != nil {
		err = r.end.Close()
	}
	for _, c := range r.children {
		err = errors.Join(err, c.Stop())
	}
	return err
}

// gets keeps depth GETs at a server under way for a while.
func (r *remote) gets(kind string) func(time.Duration) float64 {
	list := r.servers[kind]
	var done client.Done
	issue := func(i uint64) {
		r.asked[i] = r.b.next(1)[0]
		var key [8]byte
		binary.BigEndian.PutUint64(key[:], r.asked[i].key)
		r.load.Fail(list[i%sessions].Get(key[:], i, done))
	}
	done = func(res client.Result) {
		want := r.asked[res.Tag].value
		if kind == bare {
			var key [8]byte
			binary.BigEndian.PutUint64(key[:], r.asked[res.Tag].key)
			want = binary.LittleEndian.Uint64(key[:])
		}
		r.load.Fail(res.Err)
		r.b.check(res.Value, want, res.Found)
		r.load.Ended(res.Tag, issue)
	}
	return r.closed(issue)
}

// scans keeps some scans of 128 keys and values under way.
func (r *remote) scans(kind string) func(time.Duration) float64 {
	list := r.sessions[kind]
	issue := func(i uint64) {
		var key [8]byte
		binary.BigEndian.PutUint64(key[:], r.b.next(1)[0].key)
		req, _ := message.Page{Key: key[:], Count: 128}.Append(nil) // 8 bytes are not too many
		buf, err := r.rpc.Alloc(len(req))
		if err != nil {
			r.load.Fail(err)
			return
		}
		copy(buf.Data(), req)
		_, err = r.rpc.EnqueueRequest(list[i%sessions],
			erpc.Request{Type: message.Scan, Req: buf, Done: r.scanned, Tag: i})
		r.load.Fail(err)
	}
	return func(each time.Duration) float64 {
		r.scanned = func(c erpc.Completion) { r.gotPage(c); r.load.Ended(c.Tag, issue) }
		return r.closed(issue)(each)
	}
}

// gotPage checks the answer to a scan.
func (r *remote) gotPage(c erpc.Completion) {
	c.Req.Free()
	if r.load.Fail(c.Err); c.Err != nil {
		return
	}
	e, err := message.ParseEntries(c.Resp.Data())
	r.load.Fail(err)
	for key, _, ok := e.Next(); ok; key, _, ok = e.Next() {
		if len(key) != 8 {
			r.b.wrong++
		}
	}
	c.Resp.Free()
}

// closed runs a closed loop.
func (r *remote) closed(issue func(uint64)) func(time.Duration) float64 {
	return func(each time.Duration) float64 {
		runtime.LockOSThread()
		ns := r.load.Run(each, depth, issue, r.rpc.Run)
		if r.load.Err != nil {
			fmt.Fprintln(os.Stderr, r.load.Err)
			os.Exit(1)
		}
		return ns
	}
}
