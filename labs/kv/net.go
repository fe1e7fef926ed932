package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/loadgen"
	"github.com/userspace-rpc/erpc/kv/client"
	"github.com/userspace-rpc/erpc/labs/benchrows"
	"github.com/userspace-rpc/erpc/ycsb"
)

// The load: sessions with a server, and requests under way in all of them together.
const (
	sessions = 8
	depth    = 64

	// Multi-gets of memcached and redis, and ours: of so many keys that request and response are one
	// packet, and as many keys under way.
	multiDepth = 4
	ownMulti   = 16
	ownDepth   = multiDepth * multi / ownMulti
)

// remote is the client of our servers, in this thread.
type remote struct {
	w        *words
	end      *loadgen.Endpoint
	rpc      *erpc.Rpc
	children []*benchrows.Child
	loops    []*client.Loop
	bare     []*erpc.Session
	text     string // the address for memcached's clients
	asked    [depth]uint64
	load     benchrows.Closed
	echoed   erpc.Continuation
}

// words are the keys as memcached and redis can have them, in random order, and their values.
type words struct {
	n     uint64
	list  []uint64 // the keys to ask for, again and again
	at    int
	wrong int
	key   [keySize]byte
	value [valueSize]byte
}

func newWords(n int) *words { return &words{n: uint64(n)} }

// drawn is how many keys are drawn before a measurement: drawing by Zipf's law takes a client
// longer than a request does.
const drawn = 1 << 22

// uniform returns keys of which each is as likely as the others.
func (w *words) uniform() (list []uint64) {
	r := rand.New(rand.NewPCG(3, 4))
	for range drawn {
		list = append(list, r.Uint64N(w.n))
	}
	return list
}

// zipf returns keys by Zipf's law with 0.99, as YCSB has it.
func (w *words) zipf() (list []uint64) {
	z, r := ycsb.NewZipf(int64(w.n)), rand.New(rand.NewPCG(5, 6))
	for range drawn {
		list = append(list, uint64(z.Next(r)-1))
	}
	return list
}

func (w *words) next() uint64 {
	w.at = (w.at + 1) % drawn
	return w.list[w.at]
}

// of returns key i, valid until the next call.
func (w *words) of(i uint64) []byte {
	x := (i ^ i>>31) * 0x9E3779B97F4A7C15 // no two are the same
	binary.LittleEndian.PutUint64(w.key[:], digits(uint32(x)))
	binary.LittleEndian.PutUint64(w.key[8:], digits(uint32(x>>32)))
	return w.key[:]
}

// digits returns the eight hexadecimal digits of a number, the lowest one first. All at once: the
// client is to be as cheap as it can be.
func digits(n uint32) uint64 {
	x := uint64(n)
	x = (x | x<<16) & 0x0000FFFF0000FFFF
	x = (x | x<<8) & 0x00FF00FF00FF00FF
	x = (x | x<<4) & 0x0F0F0F0F0F0F0F0F
	letters := (x + 0x0606060606060606) >> 4 & 0x0101010101010101 // those above 9
	return x + 0x3030303030303030 + letters*('a'-'0'-10)
}

// valueOf returns its value, of which the same holds.
func (w *words) valueOf(i uint64) []byte {
	for at := 0; at < valueSize; at += keySize {
		copy(w.value[at:], w.of(i+uint64(at)))
	}
	return w.value[:]
}

// found takes what was found for key i.
func (w *words) found(i uint64, value []byte) {
	if string(w.valueOf(i)) != string(value) {
		w.wrong++
	}
}

// newRemote starts our servers over a transport, and connects.
func newRemote(w *words, network string) (r *remote, err error) {
	r = &remote{w: w}
	exe, err := os.Executable()
	if err != nil {
		return r, err
	}
	for _, kind := range []string{childBare, childStore} {
		c, err := benchrows.StartChild(exe, "-child", kind, "-net", network, "-keys", fmt.Sprint(w.n))
		if err != nil {
			return r, err
		}
		r.children = append(r.children, c)
	}
	benchrows.Pin(benchrows.ClientCore) // not before: children inherit it
	var addrs [2]string
	for i, c := range r.children {
		text, err := c.Address()
		if err != nil {
			return r, err
		}
		if _, err := fmt.Sscan(text, &addrs[i], &r.text); err != nil && i == 1 {
			return r, err
		}
	}
	return r, r.connect(network, addrs)
}

// connect opens the sessions.
func (r *remote) connect(network string, addrs [2]string) error {
	tr, err := listen(network)
	if err != nil {
		return err
	}
	if r.end, err = loadgen.Open(tr, erpc.Config{NoHugepages: true}); err != nil {
		return err
	}
	r.end.Failed, r.rpc = r.load.Fail, r.end.Rpc
	for range sessions {
		s, err := r.end.Dial(addrs[0])
		if err != nil {
			return err
		}
		r.bare = append(r.bare, s)
		if s, err = r.end.Dial(addrs[1]); err != nil {
			return err
		}
		l, err := client.NewLoop(r.rpc, client.Sessions{Name: addrs[1], Partitions: []*erpc.Session{s}})
		if err != nil {
			return err
		}
		r.loops = append(r.loops, l)
	}
	return r.end.Wait(context.Background())
}

func (r *remote) close() (err error) {
	if r.end != nil {
		err = r.end.Close()
	}
	for _, c := range r.children {
		err = errors.Join(err, c.Stop())
	}
	return err
}

// skewed returns a row like another one, with keys of a list.
func (w *words) skewed(list []uint64, row func(time.Duration) float64) func(time.Duration) float64 {
	return func(each time.Duration) float64 {
		before := w.list
		defer func() { w.list = before }()
		w.list = list
		return row(each)
	}
}

// gets keeps depth GETs under way for a while, and returns the nanoseconds of one.
func (r *remote) gets(each time.Duration) float64 {
	var done client.Done
	issue := func(i uint64) {
		r.asked[i] = r.w.next()
		r.load.Fail(r.loops[i%sessions].Get(r.w.of(r.asked[i]), i, done))
	}
	done = func(res client.Result) {
		r.load.Fail(res.Err)
		r.w.found(r.asked[res.Tag], res.Value.Value)
		r.load.Ended(res.Tag, issue)
	}
	return r.closed(each, issue)
}

// multis does the same with multi-gets, ownDepth of them under way.
func (r *remote) multis(each time.Duration) float64 {
	var keys [ownMulti][keySize]byte
	var list [ownMulti][]byte
	for i := range keys {
		list[i] = keys[i][:]
	}
	var asked [ownDepth][ownMulti]uint64
	var left [ownDepth]int
	var done client.Done
	issue := func(slot uint64) {
		for i := range keys {
			asked[slot][i] = r.w.next()
			copy(keys[i][:], r.w.of(asked[slot][i]))
		}
		left[slot] = ownMulti
		r.load.Fail(r.loops[slot%sessions].GetMulti(list[:], slot*ownMulti, done))
	}
	done = func(res client.Result) {
		slot := res.Tag / ownMulti
		r.load.Fail(res.Err)
		r.w.found(asked[slot][res.Tag%ownMulti], res.Value.Value)
		if left[slot]--; left[slot] == 0 {
			r.load.Ended(slot, issue)
		}
	}
	runtime.LockOSThread()
	return r.load.Run(each, ownDepth, issue, r.rpc.Run) / ownMulti
}

// bares does the same with RPCs of 48 bytes both ways and nothing behind them. A request has a key,
// and the response is compared with it.
func (r *remote) bares(each time.Duration) float64 {
	issue := func(i uint64) {
		b, err := r.rpc.Alloc(keySize + valueSize)
		if err == nil {
			r.asked[i] = r.w.next()
			clear(b.Data()[copy(b.Data(), r.w.of(r.asked[i])):])
			_, err = r.rpc.EnqueueRequest(r.bare[i%sessions],
				erpc.Request{Type: bareType, Req: b, Done: r.echoed, Tag: i})
		}
		r.load.Fail(err)
	}
	r.echoed = func(c erpc.Completion) {
		c.Req.Free()
		if r.load.Fail(c.Err); c.Err == nil {
			if string(c.Resp.Data()[:keySize]) != string(r.w.of(r.asked[c.Tag])) {
				r.w.wrong++
			}
			c.Resp.Free()
		}
		r.load.Ended(c.Tag, issue)
	}
	return r.closed(each, issue)
}

// closed runs a closed loop.
func (r *remote) closed(each time.Duration, issue func(uint64)) float64 {
	runtime.LockOSThread()
	return r.load.Run(each, depth, issue, r.rpc.Run)
}
