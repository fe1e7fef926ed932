package afxdp

import (
	"fmt"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
)

// BenchmarkBulk makes calls with requests of 8 MiB, one after the other, beside the same bytes sent
// raw in frames of the same size. An operation is one request.
func BenchmarkBulk(b *testing.B) {
	const message = 8 << 20
	for _, size := range []int{1400, 3400} {
		b.Run(fmt.Sprintf("mtu=%d", size), func(b *testing.B) {
			inModes(b, func(b *testing.B, mode Mode) {
				frames := (message + size - 1) / size
				sides := [3]side{rawOneWay(b, mode, size, false), rawOneWay(b, mode, size, true),
					bulk(b, mode, size, message)}
				for i := range sides[:2] {
					one := sides[i].near
					sides[i].near = func(n int) { one(n * frames) }
				}
				reportRates(b, contest(b, 1, sides), frames, size)
			})
		})
	}
}

// bulk returns a side that makes calls with requests of so many bytes.
func bulk(b *testing.B, mode Mode, mtu, bytes int) side {
	client, server := newPair(b, mode, mtu)
	nexus, err := erpc.NewNexus(erpc.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { nexus.Close() })
	if err := nexus.Register(1, erpc.Dispatch,
		func(r erpc.ReqHandle) { _ = r.RespondBytes(r.Data()[:32]) }); err != nil {
		b.Fatal(err)
	}
	near, err := nexus.NewRpc(client)
	if err != nil {
		b.Fatal(err)
	}
	far, err := nexus.NewRpc(server)
	if err != nil {
		b.Fatal(err)
	}
	s, err := near.CreateSessionTo(server.LocalAddr())
	if err != nil {
		b.Fatal(err)
	}
	step := func(r *erpc.Rpc) {
		if _, err := r.RunOnce(); err != nil {
			b.Fatal(err)
		}
	}
	for !s.Connected() {
		step(near)
		step(far)
	}
	req, _ := near.Alloc(bytes)
	resp, _ := near.Alloc(32)
	done := false
	finish := func(c erpc.Completion) {
		if done = true; c.Err != nil || c.Resp.Size() != 32 {
			b.Error(c.Err)
		}
	}
	return side{func(n int) {
		for range n {
			done = false
			if _, err := near.EnqueueRequest(s,
				erpc.Request{Type: 1, Req: req, Resp: resp, Done: finish}); err != nil {
				b.Error(err)
				return
			}
			for !done {
				step(near)
			}
		}
	}, func() { step(far) }}
}
