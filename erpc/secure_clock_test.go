package erpc_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/security/sectest"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// The sides whose clock jumps.
const (
	clientJumps = 1 << iota
	serverJumps
)

// newClockPair is a pair whose clocks have run for some days.
func newClockPair(t *testing.T, cfg erpc.Config) *restartRig {
	net := newMemNet()
	net.now = net.now.Add(100 * time.Hour)
	return newRestartRigOn(t, net, cfg)
}

// jump sets clocks of endpoints forward, or back.
func (r *restartRig) jump(sides int, d time.Duration) {
	if sides&clientJumps != 0 {
		r.cend.skew = r.cend.skew.Add(d)
	}
	if sides&serverJumps != 0 {
		r.send.skew = r.send.skew.Add(d)
	}
}

// TestClockJumps: when the clock of an endpoint jumps by hours, as that of a machine that was moved
// may, its sessions go on with the calls under way, and each runs once. Keys change once after a
// jump forward that is longer than Config.KeyUpdate, however much longer, if it is the clock of the
// side that begins; no other jump changes any.
func TestClockJumps(t *testing.T) {
	for _, jump := range []time.Duration{5 * time.Hour, -5 * time.Hour, 50 * time.Hour} {
		for sides := range 4 {
			clockJumps(t, sides, jump)
		}
	}
}

func clockJumps(t *testing.T, sides int, jump time.Duration) {
	r := newClockPair(t, erpc.Config{PSK: testPSK, KeyUpdate: time.Hour})
	r.tick = 1_000_000
	r.pass(3000)
	r.tick = 20_000
	list := r.calls(20)
	for range 3 {
		r.step()
	}
	if n := len(r.runs); n == 0 || n == len(list) {
		t.Fatalf("%d have run: no jump in the middle", n)
	}
	r.jump(sides, jump)
	start := r.net.now
	r.until(func() bool { return ends(list) })
	if took := r.net.now.Sub(start); took > 50*time.Millisecond {
		t.Errorf("sides %b, %v: the calls took %v", sides, jump, took)
	}
	r.tick = 1_000_000
	r.pass(5000) // pings look at the keys
	list = append(list, r.calls(9)...)
	r.until(func() bool { return ends(list) })
	for _, res := range list {
		is(t, "a call", res.err, nil)
	}
	want := uint64(0)
	if jump > 0 && sides&clientJumps != 0 {
		want = 1
	}
	if n := r.client.Counters().KeyUpdates; n != want || r.sess.Err() != nil {
		t.Errorf("sides %b, %v: %d updates, want %d; %v", sides, jump, n, want, r.sess.Err())
	}
	if f := r.client.Forged() + r.server.Forged(); f != 0 {
		t.Errorf("sides %b, %v: %d packets were not opened", sides, jump, f)
	}
	r.once()
	r.end()
}

// TestClockJumpsWhileOpening: a clock jumps after any packet of an opening. Cookies from before
// count no more where the server's has jumped ahead; the session opens all the same, by another
// one. If it is the client's it may have run out of time, and the next session opens.
func TestClockJumpsWhileOpening(t *testing.T) {
	for _, jump := range []time.Duration{5 * time.Hour, -5 * time.Hour} {
		for sides := clientJumps; sides <= clientJumps|serverJumps; sides++ {
			for after := range 7 {
				jumpOpening(t, sides, jump, after)
			}
		}
	}
}

func jumpOpening(t *testing.T, sides int, jump time.Duration, after int) {
	t.Helper()
	what := fmt.Sprintf("sides %b, %v, after %d packets", sides, jump, after)
	r := newClockPair(t, erpc.Config{PSK: testPSK})
	r.unknown()
	packets, challenges := 0, 0
	count := func(pkt []byte, _ transport.Addr) {
		if sealed(pkt) {
			return
		}
		if wire.Op(pkt[1]) == wire.OpChallenge {
			challenges++
		}
		if packets++; packets == after {
			r.jump(sides, jump)
		}
	}
	r.cend.tap, r.send.tap = count, count
	s, err := r.client.CreateSessionTo(r.send.addr)
	is(t, what, err, nil)
	r.until(func() bool { return s.Connected() || s.Err() != nil })
	want := 1
	if sides&serverJumps != 0 && jump > 0 &&
		(after == 2 || after == 3) { // before the cookie is looked at
		want = 2
	}
	switch ran := sides&clientJumps != 0 && jump > 0; {
	case s.Err() != nil && !(ran && errors.Is(s.Err(), erpc.ErrConnect)):
		t.Errorf("%s: %v", what, s.Err())
	case s.Err() == nil && challenges != want:
		t.Errorf("%s: %d challenges, want %d", what, challenges, want)
	}
	r.cend.tap, r.send.tap = nil, nil
	r.connect()
	list := r.calls(3)
	r.until(func() bool { return ends(list) })
	r.once()
	r.end()
}

// wallRig is a server, and clients one after the other, whose certificates are checked by clocks
// of their own.
type wallRig struct {
	*restartRig
	theirs *tls.Config      // the clients'
	ahead  [2]time.Duration // of their clock, and the server's
}

func newWallRig(t *testing.T) *wallRig {
	w := new(wallRig)
	ca := sectest.NewCA("test")
	start := time.Now()
	clock := func(i int) func() time.Time {
		return func() time.Time { return start.Add(w.ahead[i]) }
	}
	server := ca.Config("server.test", "")
	server.ServerName, server.Time = "server.test", clock(1)
	w.restartRig = newRestartRig(t, erpc.Config{TLS: server, KeyUpdate: time.Hour})
	w.theirs = ca.Config("", "spiffe://test/client")
	w.theirs.ServerName, w.theirs.Time = "server.test", clock(0)
	w.theirs.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	return w
}

// fresh dials from a new endpoint, and says whether that took up an earlier TLS session.
func (w *wallRig) fresh() (resumed bool, err error) {
	w.cfg.TLS = w.theirs
	w.cend = w.net.end(true)
	w.gone = append(w.gone, w.client)
	w.client = w.another(w.cend, uint64(50+len(w.gone)))
	s, err := w.client.CreateSessionTo(w.send.addr)
	is(w.t, "a session", err, nil)
	w.until(func() bool { return s.Connected() || s.Err() != nil })
	if w.sess = s; s.Err() != nil {
		return false, s.Err()
	}
	list := w.calls(1)
	w.until(func() bool { return ends(list) })
	is(w.t, "a call", list[0].err, nil)
	w.pass(10) // for the ticket
	return s.State().TLS.DidResume, nil
}

// TestWallClockJumps: the time of day of either side decides on new endpoints alone, by the dates
// of certificates and tickets. Sessions go on, endpoints open more, and no keys change. Once a
// clock is right again, so is all else.
func TestWallClockJumps(t *testing.T) {
	const day, year = 24 * time.Hour, 365 * 24 * time.Hour
	for _, c := range []struct {
		jump    time.Duration
		good    bool // the dates of certificates are
		resumes [4]bool
	}{
		{5 * time.Hour, true, [4]bool{true, true, true, true}},
		{-5 * time.Hour, true, [4]bool{true, true, true, true}},
		{8 * day, true, [4]bool{true, false, false, false}}, // tickets are good for a week
		{2 * year, false, [4]bool{}},
		{-100 * year, false, [4]bool{}},
	} {
		for sides := clientJumps; sides <= clientJumps|serverJumps; sides++ {
			w := newWallRig(t)
			_, err := w.fresh()
			is(t, "before", err, nil)
			w.wallJump(sides, c.jump, c.good, c.resumes[sides])
			w.once()
			w.end()
		}
	}
}

func (w *wallRig) wallJump(sides int, jump time.Duration, good, resumes bool) {
	t, old, sess := w.t, w.client, w.sess
	what := fmt.Sprintf("sides %b, %v", sides, jump)
	set := func(d time.Duration) {
		for i := range w.ahead {
			if sides>>i&1 != 0 { // clientJumps is the first bit
				w.ahead[i] = d
			}
		}
	}
	set(jump)
	w.tick = 1_000_000
	w.pass(3000)
	list := w.calls(3)
	w.connect()
	list = append(list, w.calls(3)...)
	w.until(func() bool { return ends(list) })
	for _, res := range list {
		is(t, what, res.err, nil)
	}
	if n := old.Counters().KeyUpdates; n != 0 || sess.Err() != nil {
		t.Errorf("%s: %d updates; %v", what, n, sess.Err())
	}
	resumed, err := w.fresh()
	var invalid x509.CertificateInvalidError
	switch mine := errors.As(err, &invalid) && invalid.Reason == x509.Expired; {
	case good:
		if err != nil || resumed != resumes {
			t.Errorf("%s: resumed %v, %v", what, resumed, err)
		}
	case !errors.Is(err, erpc.ErrDenied), sides&clientJumps != 0 && !mine,
		!strings.Contains(err.Error(), "expired"):
		t.Errorf("%s: %v", what, err)
	}
	set(0)
	if _, err = w.fresh(); err != nil {
		t.Errorf("%s, and back: %v", what, err)
	}
}
