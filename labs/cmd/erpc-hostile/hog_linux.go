package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/udp"
	"github.com/userspace-rpc/erpc/wire"
)

// Request types of the server that this command runs. The first one is that of "erpc server" too.
const (
	slowType  = 2 // a handler that blocks
	largeType = 3 // a large response
)

const (
	slowFor   = 100 * time.Millisecond
	largeSize = 1 << 20

	victims       = 10
	victimCalls   = 4 // in flight
	hogSessions   = 600
	memoryHeld    = 200 // sessions of hog-memory
	claimedLength = 8 << 20
)

// hogAddr is where a hog lives, and victimAddr where victim i does.
var hogAddr = [4]byte{127, 0, 0, 66}

func victimAddr(i int) string { return fmt.Sprintf("127.0.1.%d:0", i+1) }

// serve runs a server whose handlers run in the background, with default limits but perhaps that of
// memory, and prints its address.
func serve(o options) error {
	s, err := erpc.NewServer(erpc.Config{MemoryLimit: o.memory << 20})
	if err != nil {
		return err
	}
	large := make([]byte, largeSize) // the hog is to cost memory, and not the making of responses
	err = errors.Join(
		s.HandleBorrowed(echoType, func(_ context.Context, b []byte) ([]byte, error) { return b, nil }),
		s.HandleBorrowed(slowType, func(context.Context, []byte) ([]byte, error) {
			time.Sleep(slowFor)
			return nil, nil
		}),
		s.HandleBorrowed(largeType, func(context.Context, []byte) ([]byte, error) {
			return large, nil
		}))
	if err != nil {
		return err
	}
	conn, err := udp.Listen(o.target, udp.Config{})
	if err != nil {
		return err
	}
	fmt.Println(conn.LocalAddr())
	time.AfterFunc(o.duration, func() { _ = s.Close() })
	if err = s.Serve(conn); errors.Is(err, erpc.ErrClosed) {
		err = nil
	}
	st := s.Stats()
	if len(st) > 0 {
		fmt.Printf("sessions %d, buffers %.0f MiB\n", st[0].Sessions, float64(st[0].MemoryAll)/(1<<20))
	}
	return err
}

// victimRate returns how many echo calls a second some clients make, each from an address of its
// own, and how many calls failed.
func victimRate(o options) (rate float64, failed int64, err error) {
	ctx, stop := context.WithTimeout(context.Background(), o.duration+10*time.Second)
	defer stop()
	var done sync.WaitGroup
	var calls, bad atomic.Int64
	var over atomic.Bool
	for i := range victims {
		conn, err := udp.Listen(victimAddr(i), udp.Config{})
		if err != nil {
			return 0, 0, err
		}
		c, err := erpc.Dial(ctx, conn, o.target, erpc.Config{Wait: erpc.WaitSleep})
		if err != nil {
			fmt.Fprintln(os.Stderr, "victim", i, err)
			bad.Add(1)
			continue
		}
		defer c.Close()
		for range victimCalls {
			done.Go(func() {
				msg := make([]byte, 32)
				for !over.Load() {
					if _, err := c.Call(ctx, echoType, msg); err != nil {
						bad.Add(1)
					} else {
						calls.Add(1)
					}
				}
			})
		}
	}
	time.Sleep(100 * time.Millisecond)
	before, start := calls.Load(), time.Now()
	time.Sleep(o.duration)
	rate = float64(calls.Load()-before) / time.Since(start).Seconds()
	over.Store(true)
	done.Wait()
	return rate, bad.Load(), nil
}

// hog is a client that takes what it gets.
type hog struct {
	rpc      *erpc.Rpc
	sessions []*erpc.Session
	open     int
	rate     int
	begun    int // sessions and calls
	start    time.Time
}

// newHog returns a hog at its address, which opens up to n sessions.
func newHog(o options, n int) (*hog, error) {
	nx, err := erpc.NewNexus(erpc.Config{Wait: erpc.WaitSleep})
	if err != nil {
		return nil, err
	}
	conn, err := udp.Listen(netip.AddrPortFrom(netip.AddrFrom4(hogAddr), 0).String(), udp.Config{})
	if err != nil {
		return nil, err
	}
	h := &hog{rate: o.rate, start: time.Now()}
	if h.rpc, err = nx.NewRpc(conn); err != nil {
		return nil, err
	}
	to, err := h.rpc.CreateSession(o.target)
	if err != nil {
		return nil, err
	}
	h.sessions = append(h.sessions, to)
	for len(h.sessions) < n {
		for range h.due() {
			s, err := h.rpc.CreateSessionTo(to.Peer())
			if err != nil {
				return nil, err
			}
			if h.sessions = append(h.sessions, s); len(h.sessions) == n {
				break
			}
		}
		if err = h.rpc.RunFor(time.Millisecond); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// due returns how much more the hog may begin at its rate.
func (h *hog) due() int {
	n := int(time.Since(h.start).Seconds()*float64(h.rate)) - h.begun
	h.begun += n
	return n
}

// runHandlers has handlers block for a while.
func runHandlers(o options) error {
	end := time.Now().Add(o.duration)
	h, err := newHog(o, hogSessions)
	if err != nil {
		return err
	}
	for time.Now().Before(end) {
		for range h.due() {
			if h.open < hogSessions*8 {
				h.call(h.sessions[rand.N(hogSessions)])
			}
		}
		if err := h.rpc.RunFor(time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// runSessions opens sessions of one address for a while, and keeps them: a packet now and then is
// enough for all, since they say that one endpoint has them.
func runSessions(o options) error {
	target, err := netip.ParseAddrPort(o.target)
	if err != nil {
		return err
	}
	s, err := open(target)
	if err != nil {
		return err
	}
	defer s.close()
	s.epoch = rand.Uint64() | 1
	var first *wire.Accept
	taken := 0
	for end := time.Now().Add(o.duration); time.Now().Before(end); {
		a, err := s.dialFrom(hogAddr)
		if err == nil {
			if taken++; first == nil {
				first = a
			}
			if taken%1000 == 0 {
				fmt.Println("sessions", taken)
			}
			continue
		}
		if first != nil {
			pkt := make([]byte, wire.HeaderSize+32)
			h := wire.Header{Type: wire.TypeReq, ReqType: echoType, MsgSize: 32, Session: first.Session,
				ReqNum: 8}
			h.Put(pkt, first.Token)
			if err := s.send(pkt, hogAddr); err != nil {
				return err
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}

// call makes a call whose handler blocks.
func (h *hog) call(s *erpc.Session) {
	req, err := h.rpc.Alloc(32)
	if err != nil {
		return
	}
	h.open++
	_, err = h.rpc.EnqueueRequest(s,
		erpc.Request{Type: slowType, Req: req, Done: func(d erpc.Completion) {
			h.open--
			d.Req.Free()
			if d.Resp != nil {
				d.Resp.Free()
			}
		}})
	if err != nil {
		h.open--
		req.Free()
	}
}

// hollow returns the packets of hog-memory: the first packets of large requests that never go on,
// and in turns with them small requests for large responses, of which it takes the first packets.
func (s *socket) hollow() (source, error) {
	var peers []*wire.Accept
	for range memoryHeld {
		a, err := s.dialFrom(hogAddr)
		if err != nil {
			return nil, err
		}
		peers = append(peers, a)
	}
	turn := 0
	pkt := make([]byte, mtu)
	return func() ([]byte, [4]byte) {
		a := peers[turn%len(peers)]
		slots := int(a.Offer.Slots)
		slot := turn / len(peers) % slots
		h := wire.Header{
			Type: wire.TypeReq, ReqType: echoType, Session: a.Session, MsgSize: claimedLength,
			ReqNum: uint64(slots*(1+turn/len(peers)/slots) + slot),
		}
		p := pkt[:min(mtu, int(a.Offer.MTU))]
		if slot%2 == 1 {
			h.ReqType, h.MsgSize, p = largeType, 32, pkt[:wire.HeaderSize+32]
		}
		h.MsgSize = min(h.MsgSize, a.Offer.MaxMessage)
		h.Put(p, a.Token)
		if a.Offer.Features&wire.FeatureChecksum != 0 {
			wire.SetToken(p, a.Token^wire.Checksum(p, nil))
		}
		turn++
		return p, hogAddr
	}, nil
}
