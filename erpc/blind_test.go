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
