package main

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"path/filepath"

	"github.com/userspace-rpc/erpc/rfp"
	"github.com/userspace-rpc/erpc/rfp/jakiro/bypass"
	"github.com/userspace-rpc/erpc/rfp/onesided"
)

// kind says what answers a row.
type kind int

const (
	kindRfp kind = iota
	kindBypass
	kindErpc
	kindHerd
)

// row is a way of answering. Client and server know it by its place in the list.
type row struct {
	name  string
	kind  kind
	cfg   rfp.Config
	slots int  // messages under way
	sync  bool // the server waits for each of its replies
	blind bool // the client posts READs, where it could look at the server's memory in place
	base  string
}

const (
	fetchName = "fetch"
	oneName   = "fetch, 1 call under way"
)

// rowList has the rows; those of a batch have as many messages under way as the others.
func rowList() []row {
	fetch, reply := rfp.Config{Mode: rfp.Fetch}, rfp.Config{Mode: rfp.Reply}
	batch := func(c rfp.Config, n int) rfp.Config {
		c.Batch = n
		return c
	}
	const slots = 16
	return []row{
		{name: "reply", cfg: reply, slots: slots},
		{name: fetchName, cfg: fetch, slots: slots, base: "reply"},
		{name: "reply, one at a time", cfg: reply, slots: slots, sync: true, base: "reply"},
		{name: "fetch by READs", cfg: fetch, slots: slots, blind: true, base: "reply"},
		{name: "fetch, batches of 4", cfg: batch(fetch, 4), slots: slots, base: fetchName},
		{name: "reply, batches of 4", cfg: batch(reply, 4), slots: slots, base: "reply"},
		{name: "fetch, batches of 16", cfg: batch(fetch, 16), slots: slots, base: fetchName},
		{name: "bypass, GETs by READs", kind: kindBypass, cfg: fetch, slots: slots, base: fetchName},
		{name: "erpc over shm", kind: kindErpc, slots: slots, base: fetchName},
		{name: oneName, cfg: fetch, slots: 1},
		{name: "reply, 1 call under way", cfg: reply, slots: 1, base: oneName},
		{name: "erpc over shm, 1 call under way", kind: kindErpc, slots: 1, base: oneName},
	}
}

// rows are those of the medium.
func (w *workload) rows() []row {
	if w.rdma() {
		return rdmaRows()
	}
	return rowList()
}

// memory is how much a store of all keys takes.
func (w *workload) memory() int { return max(1<<20, 3*w.Keys*(keyBytes+w.Value+32)) }

// geometry of the messages of a row.
func (r *row) geometry(value int) rfp.Geometry {
	size := max(1, r.cfg.Batch) * (keyBytes + value + 1 + rfp.Entry + 4)
	return rfp.Geometry{Slots: r.slots, Request: size, Response: size}
}

// workload has what both sides know.
type workload struct {
	server, client netip.Addr // adapters, of rows over RDMA

	Dir   string `help:"Folder of the sockets." default:"" hidden:""`
	Keys  int    `default:"100000" help:"Keys; default ${default}." placeholder:"N"`
	Value int    `default:"32" help:"Size of a value in bytes; default ${default}." placeholder:"SIZE"`
}

const keyBytes = 16

func (w *workload) layout() bypass.Layout {
	l := bypass.Layout{Buckets: 8, Item: keyBytes + w.Value}
	for l.Buckets*7/10 < w.Keys {
		l.Buckets *= 2
	}
	return l
}

// socket is where row i listens; part 1 is the second link of a row that has two.
func (w *workload) socket(i, part int) string {
	return filepath.Join(w.Dir, fmt.Sprintf("%d-%d", i, part))
}

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// key returns key i in b.
func key(b *[keyBytes]byte, i uint64) []byte {
	binary.LittleEndian.PutUint64(b[:], i)
	binary.LittleEndian.PutUint64(b[8:], mix(i))
	return b[:]
}

// appendValue appends the value of a key, the only one that it ever has.
func appendValue(b []byte, i uint64, n int) []byte {
	for x := mix(^i); n > 0; n -= 8 {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], x+uint64(n))
		b = append(b, word[:min(n, 8)]...)
	}
	return b
}

// right reports whether a value is that of key i.
func right(v []byte, i uint64, n int) bool {
	if len(v) != n {
		return false
	}
	x := mix(^i)
	for ; n >= 8; n -= 8 {
		if binary.LittleEndian.Uint64(v) != x+uint64(n) {
			return false
		}
		v = v[8:]
	}
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], x+uint64(n))
	return string(v) == string(word[:n])
}

// blind is a link that hides its view.
type blind struct{ onesided.Link }

// View returns nil.
func (blind) View(int) []byte { return nil }
