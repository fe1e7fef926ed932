package rc

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/internal/verbs"
	"github.com/userspace-rpc/erpc/rfp"
	"github.com/userspace-rpc/erpc/rfp/onesided"
)

// testPatience is how long a test waits for an event before it fails.
const testPatience = time.Minute

// await steps until a condition holds, and fails the test if it never does.
func (k *calls) await(what string, cond func() bool) {
	k.t.Helper()
	for end := monotime.Now().Add(testPatience); !cond(); {
		if monotime.Now() > end {
			k.t.Fatalf("no %s: %d calls sent, %d ended; client %v, server %v; %+v", what, k.sent,
				k.ended, k.x.Err(), k.y.Err(), k.srv.Stats())
		}
		k.step()
	}
}

// faultModes are the clients whose links break in TestBroken.
func faultModes() map[string]rfp.Config {
	return map[string]rfp.Config{"fetch": {Mode: rfp.Fetch}, "reply": {Mode: rfp.Reply}, "hybrid": {},
		"behind": {Mode: rfp.Fetch, First: rfp.Behind}, "batches": {Mode: rfp.Reply, Batch: 2}}
}

// TestBroken puts a queue pair of either side into the error state while calls are under way: in
// the middle of them, when the server has the requests and no reply has left, and when nothing is
// under way. Each call ends once with the link's error, and the server forgets the link.
func TestBroken(t *testing.T) {
	needDevices(t)
	for name, cfg := range faultModes() {
		for side, qp := range map[string]func(*calls) *verbs.QP{
			"client's": func(k *calls) *verbs.QP { return k.x.qp },
			"server's": func(k *calls) *verbs.QP { return k.y.qp },
		} {
			for moment, prepare := range map[string]func(*calls){
				"under way": func(k *calls) { k.step() },
				"at the server": func(k *calls) {
					for range 2000 { // so that the requests are there, acknowledged, and no reply is
						k.c.Poll(monotime.Now())
						runtime.Gosched()
					}
				},
				"asleep": func(k *calls) { k.await("end of all calls", k.idle) },
			} {
				t.Run(name+"/"+side+"/"+moment, func(t *testing.T) {
					k := newCalls(t, cfg)
					k.fill(40)
					prepare(k)
					if err := qp(k).Modify(verbs.QPAttr{State: verbs.StateErr}); err != nil {
						t.Fatal(err)
					}
					k.await("end of all calls", func() bool {
						if k.idle() && k.c.Ready() { // nothing was under way: the next call notices
							k.call()
						}
						return k.idle() && k.c.Err() != nil
					})
					k.await("end of the link at the server", func() bool { return k.srv.Links() == 0 })
					if !errors.Is(k.failed, onesided.ErrPeer) || !errors.Is(k.c.Err(), onesided.ErrPeer) {
						t.Errorf("calls failed with %v, the client with %v, want ErrPeer", k.failed, k.c.Err())
					}
					if err := k.c.Send(&rfp.Call{Kind: 1}); !errors.Is(err, onesided.ErrPeer) {
						t.Errorf("a call afterwards: %v, want ErrPeer", err)
					}
				})
			}
		}
	}
}

// fill makes calls, as many at a time as the client takes, until n have ended and all slots are in
// use.
func (k *calls) fill(n int) {
	k.t.Helper()
	k.await("calls", func() bool {
		for k.c.Ready() && k.sent < n+2*k.c.BatchSize()*geometry.Slots {
			k.call()
		}
		return k.ended >= n
	})
}

// idle reports whether each call has ended.
func (k *calls) idle() bool { return k.ended == k.sent }
