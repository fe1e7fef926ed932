package rc

import (
	"encoding/binary"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/rfp"
)

var geometry = rfp.Geometry{Slots: 8, Request: 128, Response: 128}

// calls is a client and a server of package rfp over RC, in one goroutine, which yields to the
// kernel's own work on packets.
type calls struct {
	t           *testing.T
	c           *rfp.Client
	srv         *rfp.Server
	x, y        *Link
	sent, ended int
	failed      error
	took        []time.Duration
}

func newCalls(t *testing.T, cfg rfp.Config) *calls {
	t.Helper()
	k := &calls{t: t}
	k.x, k.y = pair(t, rfp.ClientSpecs(geometry), rfp.ServerSpecs(geometry))
	var err error
	if k.srv, err = echoServer(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.srv.Close)
	if err := k.srv.Serve(k.y); err != nil {
		t.Fatal(err)
	}
	cfg.Geometry, cfg.Checksum = geometry, true
	if k.c, err = rfp.NewClient(k.x, cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.c.Close() })
	k.until(k.c.Ready)
	return k
}

func (k *calls) until(cond func() bool) {
	for !cond() {
		k.step()
	}
}

func (k *calls) step() {
	k.c.Poll(monotime.Now())
	k.srv.Poll(8)
	runtime.Gosched()
}

func (k *calls) call() {
	k.t.Helper()
	id, begun := uint64(k.sent), monotime.Now()
	body := append(binary.LittleEndian.AppendUint64(nil, id), make([]byte, 40)...)
	q := rfp.Call{Kind: 1, Body: body, Tag: id}
	q.Done = func(tag uint64, resp []byte, err error) {
		k.ended++
		k.took = append(k.took, monotime.Now().Sub(begun))
		if err != nil {
			k.failed = err
		} else if len(resp) != 48 || binary.LittleEndian.Uint64(resp) != tag {
			k.t.Errorf("call %d: %x", tag, resp)
		}
	}
	if err := k.c.Send(&q); err != nil {
		k.t.Fatal(err)
	}
	k.sent++
}

// TestCalls makes calls in each mode, one and eight at a time, and checks each answer. Its figures
// are of soft-RoCE in a guest: a READ is as dear there as a WRITE.
func TestCalls(t *testing.T) {
	needDevices(t)
	for name, cfg := range map[string]rfp.Config{"fetch": {Mode: rfp.Fetch},
		"reply": {Mode: rfp.Reply}, "hybrid": {}, "behind": {Mode: rfp.Fetch, First: rfp.Behind}} {
		k := newCalls(t, cfg)
		for _, window := range []int{1, 8} {
			k.took = k.took[:0]
			begin := monotime.Now()
			for want := k.sent + 300; k.ended < want; {
				for k.sent < want && k.sent-k.ended < window && k.c.Ready() {
					k.call()
				}
				k.step()
			}
			slices.Sort(k.took)
			t.Logf("%s, %d under way: p50 %v, %.1f k/s, %+v", name, window, k.took[len(k.took)/2],
				300/monotime.Now().Sub(begin).Seconds()/1e3, k.c.Stats())
		}
		if k.failed != nil {
			t.Errorf("%s: %v", name, k.failed)
		}
	}
}
