package erpc_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/security/sectest"
	"github.com/userspace-rpc/erpc/transport"
)

// restartRig is a pair whose ends can be other processes from one moment on, of the same address.
type restartRig struct {
	*errPair
	t      *testing.T
	cfg    erpc.Config
	runs   map[string]int // of handlers in all incarnations, by request
	named  map[*result]string
	events []string
	before [2][][]byte // sealed packets that the ends got, 0 is the client
	gone   []*erpc.Rpc
}

func newRestartRig(t *testing.T, cfg erpc.Config) *restartRig {
	t.Helper()
	return newRestartRigOn(t, newMemNet(), cfg)
}

// newRestartRigOn is newRestartRig on a given network.
func newRestartRigOn(t *testing.T, net *memNet, cfg erpc.Config) *restartRig {
	t.Helper()
	r := &restartRig{t: t, runs: map[string]int{}, named: map[*result]string{}}
	cfg.OnSession = func(_ *erpc.Rpc, s *erpc.Session, ev erpc.SessionEvent) {
		side := "server"
		if s.IsClient() {
			side = "client"
		}
		r.events = append(r.events, fmt.Sprint(side, " ", ev))
	}
	r.cfg = cfg
	r.errPair = newErrPairOn(t, net, cfg)
	r.tick = 20_000
	r.hold = func(h erpc.ReqHandle) {
		r.runs[string(h.Data())]++
		_ = h.RespondBytes(h.Data())
	}
	for i, end := range []*memEnd{r.cend, r.send} {
		end.tap = func(pkt []byte, _ transport.Addr) {
			if sealed(pkt) {
				r.before[i] = append(r.before[i], bytes.Clone(pkt))
			}
		}
	}
	return r
}

// configs are those of both ways to make keys.
func restartConfigs() map[string]erpc.Config {
	tls := sectest.NewCA("test").Config("server.test", "")
	tls.ServerName = "server.test"
	return map[string]erpc.Config{"PSK": {PSK: testPSK}, "TLS": {TLS: tls}}
}

// another makes another process at the address of an end, without a word from the one before.
func (r *restartRig) another(end *memEnd, seed uint64) *erpc.Rpc {
	cfg := r.cfg
	cfg.Simulation = erpc.Simulation{Clock: r.net.Now, Seed: seed, Executor: r.errPair}
	n, err := erpc.NewNexus(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = n.Close() })
	r.register(r.t, n)
	rpc, err := n.NewRpc(&rebornEnd{end})
	if err != nil {
		r.t.Fatal(err)
	}
	return rpc
}

// restart restarts the server.
func (r *restartRig) restart() {
	r.gone = append(r.gone, r.server)
	r.server = r.another(r.send, uint64(90+len(r.gone)))
}

// calls starts calls whose requests differ, some of many packets.
func (r *restartRig) calls(n int) (list []*result) {
	for i := range n {
		size := 100 + len(r.named) + i%3*3000
		res := r.enqueue(tHold, size, 0)
		b := make([]byte, size)
		fillPattern(b)
		r.named[res] = string(b)
		list = append(list, res)
	}
	return list
}

// once checks that no handler ran twice, and that one ran for each call without an error.
func (r *restartRig) once() {
	r.t.Helper()
	for res, name := range r.named {
		if n := r.runs[name]; res.ends != 1 || n > 1 || res.err == nil && n != 1 {
			r.t.Errorf("%d bytes: %d ends, error %v, %d runs", len(name), res.ends, res.err, n)
		}
	}
}

func (r *restartRig) end() {
	r.close()
	for _, old := range r.gone {
		_ = old.Close()
	}
}

func ends(list []*result) bool {
	return !slices.ContainsFunc(list, func(res *result) bool { return res.ends == 0 })
}

// TestSealedRestart: a server that restarts has no keys any more, and says so. Nobody takes its
// word for that: the client makes new keys with it, and the server proves who it is. Then the
// sessions with the one before end as restarted, after some milliseconds of silence. The same goes
// if the application opens another session at once. No call runs twice, neither by itself nor when
// all packets of before come again; new sessions work.
func TestSealedRestart(t *testing.T) {
	for name, cfg := range restartConfigs() {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprint(name, again), func(t *testing.T) { sealedRestart(t, cfg, again) })
		}
	}
}

func sealedRestart(t *testing.T, cfg erpc.Config, again bool) {
	r := newRestartRig(t, cfg)
	idle := r.sess
	r.connect()
	done := r.calls(9)
	r.until(func() bool { return ends(done) })
	pending := r.calls(20)
	busy := r.sess
	for range 3 {
		r.step()
	}
	if ran := len(r.runs); ran <= len(done) || ran == len(done)+len(pending) {
		t.Fatalf("%d have run: no restart in the middle", ran)
	}
	r.restart()
	start := r.net.now
	want, event := erpc.ErrPeerRestarted, "client restarted"
	if again {
		r.connect()
	}
	r.until(func() bool { return ends(pending) && idle.Err() != nil && busy.Err() != nil })
	if took := r.net.now.Sub(start); took > 100*time.Millisecond {
		t.Errorf("it was noticed after %v", took)
	}
	is(t, "the idle session", idle.Err(), want)
	is(t, "the other one", busy.Err(), want)
	told := 0
	for _, ev := range r.events {
		if ev == event {
			told++
		}
	}
	if told != 2 {
		t.Errorf("events %v", r.events)
	}
	for _, res := range pending {
		if res.err != nil {
			is(t, "a call", res.err, want)
		}
	}
	if !again {
		r.connect()
	}
	r.replayBefore()
	later := r.calls(9)
	r.until(func() bool { return ends(later) })
	for _, res := range later {
		is(t, "a call later", res.err, nil)
	}
	r.once()
	r.end()
}

// replayBefore gives both ends all packets that they got so far again.
func (r *restartRig) replayBefore() {
	r.t.Helper()
	ran := len(r.runs)
	for i, pkts := range r.before {
		end, from, rpc := r.cend, r.send.addr, r.client
		if i == 1 {
			end, from, rpc = r.send, r.cend.addr, r.server
		}
		tap := end.tap
		end.tap = nil
		dropped := func() uint64 { c := rpc.Counters(); return c.DropSealed + c.DropNoSession }
		before := dropped()
		for _, pkt := range pkts {
			end.put(pkt, nil, &from)
			r.step()
		}
		end.tap = tap
		if n := dropped() - before; n != uint64(len(pkts)) || n < 20 {
			r.t.Errorf("end %d dropped %d of %d packets", i, n, len(pkts))
		}
	}
	if len(r.runs) != ran {
		r.t.Errorf("%d handlers more ran", len(r.runs)-ran)
	}
}

// TestSealedClientRestarts: when another process has proved that it is at a client's address now,
// with the same identity, the server asks the sessions that it has with the client. They end as
// restarted after a quarter of FailureTimeout in silence.
func TestSealedClientRestarts(t *testing.T) {
	for name, cfg := range restartConfigs() {
		t.Run(name, func(t *testing.T) {
			cfg.Timing.FailureTimeout = 2 * time.Second
			r := newRestartRig(t, cfg)
			r.connect()
			done := r.calls(9)
			r.until(func() bool { return ends(done) })
			r.gone = append(r.gone, r.client)
			r.client = r.another(r.cend, 80)
			r.connect()
			start := r.net.now
			r.until(func() bool { return r.server.Sessions() == 1 })
			least, took := r.cfg.Timing.FailureTimeout/4, r.net.now.Sub(start)
			if took < least-10*time.Millisecond || took > least+50*time.Millisecond {
				t.Errorf("it was noticed after %v", took)
			}
			told := 0
			for _, ev := range r.events {
				if ev == "server restarted" {
					told++
				}
			}
			if told != 2 || r.sess.Err() != nil {
				t.Errorf("%v; the new one: %v", r.events, r.sess.Err())
			}
			r.replayBefore()
			later := r.calls(9)
			r.until(func() bool { return ends(later) })
			r.once()
			r.end()
		})
	}
}

// TestRestartWhileOpening: a server restarts after any packet of an opening, be it the first one of
// the two endpoints or by keys that they have. The session opens with the new one, and works.
func TestRestartWhileOpening(t *testing.T) {
	for name, cfg := range restartConfigs() {
		t.Run(name, func(t *testing.T) {
			for _, known := range []bool{false, true} {
				restarted := 0
				for after := range 9 {
					if restartOpening(t, cfg, known, after) {
						restarted++
					}
				}
				if restarted < 4 {
					t.Errorf("keys known %v: %d restarts", known, restarted)
				}
			}
		})
	}
}

// restartOpening restarts a server after so many packets of an opening. It reports whether it had
// so many.
func restartOpening(t *testing.T, cfg erpc.Config, known bool, after int) (restarted bool) {
	t.Helper()
	r := newRestartRig(t, cfg)
	if !known {
		r.unknown()
	}
	packets := 0
	count := func([]byte, transport.Addr) { packets++ }
	r.cend.tap, r.send.tap = count, count
	s, err := r.client.CreateSessionTo(r.send.addr)
	is(t, "a session", err, nil)
	for end := r.net.now.Add(5 * time.Second); !s.Connected(); {
		if packets >= after && !restarted {
			r.restart()
			restarted = true
		}
		r.net.now += r.tick
		r.run(r.client)
		if packets >= after && !restarted {
			continue
		}
		r.run(r.server)
		if s.Err() != nil || r.net.now > end {
			t.Errorf("keys known %v, after %d packets: %v", known, after, s.Err())
			break
		}
	}
	if s.Connected() {
		r.sess = s
		list := r.calls(3)
		r.until(func() bool { return ends(list) })
		if n := r.server.Sessions(); restarted && list[0].err == nil && n != 1 {
			t.Errorf("keys known %v, after %d packets: %d sessions", known, after, n)
		}
		r.once()
	}
	r.end()
	return restarted
}
