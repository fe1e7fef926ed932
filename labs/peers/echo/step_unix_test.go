//go:build unix

package echo

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/udp"
	"golang.org/x/sys/unix"
)

// stepBatch is how many RPCs of 32 bytes a step benchmark starts at once.
const stepBatch = 60

// The step benchmarks handle batches of RPCs in one goroutine: the client and the server take
// turns, so neither waits for the other and all CPU time is work. They report the time of a
// batch, and of an RPC the CPU time in the program and in the kernel, both sides together.

func benchmarkSteps(b *testing.B, start func(), steps func(want int) error) {
	var before, after unix.Rusage
	batches := 0
	if err := unix.Getrusage(unix.RUSAGE_SELF, &before); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		for range stepBatch {
			start()
		}
		batches++
		if err := steps(batches * stepBatch); err != nil {
			b.Fatal(err)
		}
	}
	if err := unix.Getrusage(unix.RUSAGE_SELF, &after); err != nil {
		b.Fatal(err)
	}
	per := float64(batches * stepBatch)
	b.ReportMetric(float64(after.Utime.Nano()-before.Utime.Nano())/per, "user-ns/RPC")
	b.ReportMetric(float64(after.Stime.Nano()-before.Stime.Nano())/per, "kernel-ns/RPC")
}

// BenchmarkStepUDP is the peer udp.
func BenchmarkStepUDP(b *testing.B) {
	listener, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		b.Fatal(err)
	}
	dialled, err := net.DialUDP("udp4", nil, listener.LocalAddr().(*net.UDPAddr))
	if err != nil {
		b.Fatal(err)
	}
	back := dialled.LocalAddr().(*net.UDPAddr).AddrPort()
	clientFD, err := takePackets(dialled)
	serverFD, err2 := takePackets(listener)
	if err = errors.Join(err, err2); err == nil {
		err = serverFD.connect(netip.AddrPortFrom(back.Addr().Unmap(), back.Port()))
	}
	if err != nil {
		b.Fatal(err)
	}
	server, client := newUDPPipe(serverFD), newUDPConn(clientFD)
	b.Cleanup(func() { _ = errors.Join(client.Close(), server.Close()) })
	request, sent, done := Payload(32), uint64(0), 0
	got := func(id uint64, response []byte) error {
		done++
		Stamp(request, id)
		return Check(request, nil, response, false)
	}
	benchmarkSteps(b, func() {
		sent++
		Stamp(request, sent)
		client.Send(sent, request)
	}, func(want int) error {
		for done < want {
			_, err := client.Poll(got)
			_, serr := server.serveStep(echoHandlers)
			if err := errors.Join(err, serr); err != nil {
				return err
			}
		}
		return nil
	})
}

// BenchmarkStepERPC is the library's event loop over the same transport.
func BenchmarkStepERPC(b *testing.B) {
	open := func() (*erpc.Rpc, string) {
		n, err := erpc.NewNexus(erpc.Config{Slots: 64})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = n.Close() })
		err = n.Register(echoType, erpc.Dispatch, func(h erpc.ReqHandle) {
			buf, err := h.Alloc(len(h.Data()))
			if err == nil {
				copy(buf.Data(), h.Data())
				err = h.Respond(buf)
			}
			if err != nil {
				b.Error(err)
			}
		})
		if err != nil {
			b.Fatal(err)
		}
		conn, err := udp.Listen("127.0.0.1:0", udp.Config{})
		if err != nil {
			b.Fatal(err)
		}
		r, err := n.NewRpc(conn)
		if err != nil {
			b.Fatal(err)
		}
		return r, conn.LocalAddr().String()
	}
	server, addr := open()
	client, _ := open()
	session, err := client.CreateSession(addr)
	if err != nil {
		b.Fatal(err)
	}
	for !session.Connected() && session.Err() == nil {
		if err := runBoth(client, server); err != nil {
			b.Fatal(err)
		}
	}
	if err := session.Err(); err != nil {
		b.Fatal(err)
	}
	start, steps := erpcSteps(b, client, server, session)
	benchmarkSteps(b, start, steps)
}

// erpcSteps returns the functions for benchmarkSteps: one starts a call, the other steps until
// want calls have ended.
func erpcSteps(b *testing.B, client, server *erpc.Rpc, session *erpc.Session) (start func(),
	steps func(want int) error) {
	type call struct{ req, resp *erpc.MsgBuffer }
	var free []call
	for range stepBatch {
		req, err := client.Alloc(32)
		resp, err2 := client.Alloc(32)
		if err := errors.Join(err, err2); err != nil {
			b.Fatal(err)
		}
		free = append(free, call{req, resp})
	}
	done, sent := 0, uint64(0)
	var failed error
	ended := func(c erpc.Completion) {
		done++
		free = append(free, call{c.Req, c.Resp})
		if c.Err != nil {
			failed = c.Err
		} else if err := Check(c.Req.Data(), nil, c.Resp.Data(), false); err != nil {
			failed = err
		}
	}
	start = func() {
		c := free[len(free)-1]
		free = free[:len(free)-1]
		sent++
		Stamp(c.req.Data(), sent)
		q := erpc.Request{Type: echoType, Req: c.req, Resp: c.resp, Done: ended}
		if _, err := client.EnqueueRequest(session, q); err != nil {
			b.Fatal(err)
		}
	}
	return start, func(want int) error {
		for done < want && failed == nil {
			if err := runBoth(client, server); err != nil {
				return err
			}
		}
		return failed
	}
}

func runBoth(client, server *erpc.Rpc) error {
	_, err := client.RunOnce()
	_, serr := server.RunOnce()
	return errors.Join(err, serr)
}
