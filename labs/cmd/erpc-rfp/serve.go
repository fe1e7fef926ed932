package main

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/sys"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/kv/mica"
	"github.com/userspace-rpc/erpc/rfp"
	"github.com/userspace-rpc/erpc/rfp/jakiro"
	"github.com/userspace-rpc/erpc/rfp/jakiro/bypass"
	"github.com/userspace-rpc/erpc/rfp/onesided"
	oneshm "github.com/userspace-rpc/erpc/rfp/onesided/shm"
)

type serveCmd struct {
	workload
	Core    int    `hidden:"" default:"-1"`
	Adapter string `hidden:""` // address, for RDMA
}

// ready is printed when the server listens.
type ready struct {
	Ready bool     `json:"ready"`
	Addrs []string `json:"addrs"` // of each row that has one
}

// server is the process behind all rows. Its goroutine polls the row that had something to do
// last, and the next one when that is silent.
type server struct {
	workload
	part  *mica.Partition
	polls []func() int
	close []func() error
	ready ready
	links []func() error // each waits for the links of a row
}

// Run implements the subcommand. It ends with standard input.
func (c *serveCmd) Run(e *cli.Env) (err error) {
	if c.Adapter != "" {
		if c.server, err = netip.ParseAddr(c.Adapter); err != nil {
			return cli.Usagef("--adapter %q: want an IP address, as 192.0.2.1", c.Adapter)
		}
	}
	c.moreThreads()
	s := &server{workload: c.workload, ready: ready{Ready: true}}
	defer func() {
		for _, f := range s.close {
			err = errors.Join(err, f())
		}
	}()
	if err := s.open(); err != nil {
		return err
	}
	if err := e.Print(true, s.ready, ""); err != nil {
		return err
	}
	for _, wait := range s.links {
		if err := wait(); err != nil {
			return err
		}
	}
	var ended atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, e.In)
		ended.Store(true)
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if c.Core >= 0 {
		_ = cli.PinThread(c.Core) // without it the figures are worse, not wrong
	}
	s.poll(&ended)
	return nil
}

// silence is after how many polls without work the next row has its turn.
const silence = 64

func (s *server) poll(ended *atomic.Bool) {
	for at := 0; !ended.Load(); at = (at + 1) % len(s.polls) {
		poll := s.polls[at]
		for empty := 0; empty < silence; empty++ {
			if poll() > 0 {
				empty = 0
			} else if s.rdma() {
				sys.Yield()
			}
		}
		runtime.Gosched()
	}
}

// open makes the store, and what listens for each row.
func (s *server) open() (err error) {
	s.part, err = mica.New(mica.Config{Memory: s.memory(),
		ItemSize: keyBytes + s.Value, Mode: mica.Store})
	if err != nil {
		return err
	}
	s.close = append(s.close, s.part.Close)
	var kb [keyBytes]byte
	var value []byte
	for i := range uint64(s.Keys) {
		k := key(&kb, i)
		value = appendValue(value[:0], i, s.Value)
		if err := s.part.Put(s.part.Hash(k), k, value); err != nil {
			return err
		}
	}
	for i, r := range s.rows() {
		addr := ""
		switch r.kind {
		case kindRfp:
			err = s.openRfp(i, &r)
		case kindBypass:
			err = s.openBypass(i, &r)
		case kindErpc:
			addr, err = s.openErpc()
		case kindHerd:
			addr, err = s.openHerd(r.slots)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		s.ready.Addrs = append(s.ready.Addrs, addr)
	}
	return nil
}

// listen makes a listener for one link, and has use called with that.
func (s *server) listen(path string, own, peer []onesided.Spec,
	use func(onesided.Link) error) error {
	if s.rdma() {
		return s.listenRc(path, own, peer, use)
	}
	l, err := oneshm.Listen(path, own, peer)
	if err != nil {
		return err
	}
	s.links = append(s.links, func() error {
		link, err := l.Accept()
		if err == nil {
			err = use(link)
		}
		return errors.Join(err, l.Close())
	})
	return nil
}

func (s *server) openRfp(i int, r *row) error {
	g := r.geometry(s.Value)
	var store *jakiro.Store
	srv, err := rfp.NewServer(rfp.ServerConfig{Geometry: g, OneAtATime: r.sync, Clock: monotime.Now,
		Warm: func(kinds []uint8, reqs [][]byte) { store.Warm(kinds, reqs) }})
	if err != nil {
		return err
	}
	store = jakiro.Attach(srv, s.part)
	return s.serve(i, 0, g, srv)
}

func (s *server) serve(i, part int, g rfp.Geometry, srv *rfp.Server) error {
	s.polls = append(s.polls, func() int { return srv.Poll(32) })
	s.close = append(s.close, func() error { srv.Close(); return nil })
	return s.listen(s.socket(i, part), rfp.ServerSpecs(g), rfp.ClientSpecs(g),
		func(l onesided.Link) error { return srv.Serve(l) })
}

func (s *server) openBypass(i int, r *row) error {
	l, g := s.layout(), r.geometry(s.Value)
	srv, err := rfp.NewServer(rfp.ServerConfig{Geometry: g})
	if err != nil {
		return err
	}
	err = s.listen(s.socket(i, 1), l.Specs(), l.ClientSpecs(r.slots), func(link onesided.Link) error {
		s.close = append(s.close, link.Close)
		table, err := bypass.NewTable(l, link.Region(0), link.Region(1))
		if err != nil {
			return err
		}
		bypass.Attach(srv, table)
		var kb [keyBytes]byte
		for i := range uint64(s.Keys) {
			if err := table.Put(key(&kb, i), appendValue(nil, i, s.Value)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.serve(i, 0, g, srv)
}

// erpcTiming lets sessions be silent while other rows have their turns.
func erpcTiming() erpc.Timing {
	return erpc.Timing{Heartbeat: 20 * time.Minute, FailureTimeout: 2 * time.Hour,
		ConnectTimeout: 5 * time.Minute}
}

// openErpc serves the same requests by RPCs of this library.
func (s *server) openErpc() (addr string, err error) {
	n, err := erpc.NewNexus(erpc.Config{Timing: erpcTiming()})
	if err != nil {
		return "", err
	}
	if err := n.Register(jakiro.Get, erpc.Dispatch, s.get); err != nil {
		return "", err
	}
	if err := n.Register(jakiro.Put, erpc.Dispatch, s.put); err != nil {
		return "", err
	}
	conn, err := s.endpoint(s.workload.server)
	if err != nil {
		return "", err
	}
	rpc, err := n.NewRpc(conn)
	if err != nil {
		return "", errors.Join(err, conn.Close())
	}
	s.close = append(s.close, rpc.Close, n.Close)
	s.polls = append(s.polls, func() int {
		worked, err := rpc.RunOnce()
		if err != nil {
			return 0
		}
		return worked
	})
	return strings.TrimSpace(conn.LocalAddr().String()), nil
}

func (s *server) get(h erpc.ReqHandle) {
	k := h.Data()
	if len(k) < mica.MinKey || len(k) > mica.MaxKey {
		_ = h.RespondError(jakiro.ErrRequest)
		return
	}
	buf, err := h.Alloc(1 + s.Value)
	if err != nil {
		_ = h.RespondError(err)
		return
	}
	item, found := s.part.Get(s.part.Hash(k), k)
	out := buf.Data()
	if !found {
		out[0] = 0
	} else {
		out[0] = 1
		copy(out[1:], item.Value)
	}
	_ = h.Respond(buf) // a session that has ended needs no answer
}

func (s *server) put(h erpc.ReqHandle) {
	k, value, ok := jakiro.SplitPut(h.Data())
	if !ok {
		_ = h.RespondError(jakiro.ErrRequest)
		return
	}
	if err := s.part.Put(s.part.Hash(k), k, value); err != nil {
		_ = h.RespondError(err)
		return
	}
	_ = h.RespondBytes([]byte{1})
}
