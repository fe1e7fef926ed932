package erpc_test

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
)

// TestPausesOfTheLoopAreNoCongestion: a spinning client whose thread gets to run once a
// millisecond sees round trips that long. They are its own.
func TestPausesOfTheLoopAreNoCongestion(t *testing.T) {
	w := newStepper(t, erpc.Config{Wait: erpc.WaitSpin}, 32, 32)
	var start func()
	w.finish = func(c erpc.Completion) {
		w.ended(c)
		if w.done < 300 {
			start()
		}
	}
	start = func() { // in the loop, so that it leaves in the same pass
		if _, err := w.p.client.EnqueueRequest(w.p.sess,
			erpc.Request{Type: 1, Req: w.req, Resp: w.resp, Done: w.finish}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.p.client.Post(func(*erpc.Rpc) { start() }); err != nil {
		t.Fatal(err)
	}
	asked := 0
	err := w.p.client.Run(func() bool {
		if asked++; asked%2 == 1 { // once a pass
			w.p.net.now += 1000
			if _, err := w.p.server.RunOnce(); err != nil {
				t.Fatal(err)
			}
			w.p.net.now += erpc.Time(time.Millisecond)
		}
		return w.done == 300
	})
	if err != nil || w.failed != nil {
		t.Fatal(err, w.failed)
	}
	if _, limited := w.p.sess.Rate(); limited {
		t.Error("the session is limited")
	}
	w.req.Free()
	w.resp.Free()
	w.p.close()
}

// TestWaitsInTheHostAreNoCongestion: packets that wait in their socket for a millisecond, since the
// thread that is to read them has slept and gets no processor, make no round trip long if the
// transport knows that.
func TestWaitsInTheHostAreNoCongestion(t *testing.T) {
	for _, known := range []bool{false, true} {
		w := newStepper(t, erpc.Config{}, 32, 32)
		for _, e := range w.p.net.ends {
			e.stamps = known
		}
		for range 300 {
			if err := w.p.client.Post(func(*erpc.Rpc) {
				if _, err := w.p.client.EnqueueRequest(w.p.sess,
					erpc.Request{Type: 1, Req: w.req, Resp: w.resp, Done: w.ended}); err != nil {
					t.Fatal(err)
				}
			}); err != nil {
				t.Fatal(err)
			}
			for done := w.done; w.done == done && w.failed == nil; {
				for _, r := range []*erpc.Rpc{w.p.client, w.p.server} {
					if _, err := r.RunOnce(); err != nil {
						t.Fatal(err)
					}
					w.p.net.now += erpc.Time(500 * time.Microsecond)
				}
			}
		}
		if w.failed != nil {
			t.Fatal(w.failed)
		}
		if _, limited := w.p.sess.Rate(); limited == known {
			t.Errorf("known %v: the session is limited: %v", known, limited)
		}
		w.req.Free()
		w.resp.Free()
		w.p.close()
	}
}
