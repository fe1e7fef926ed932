package udptest

import (
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/udp"
	"golang.org/x/sys/unix"
)

// BenchmarkIdle measures the first RPC after both sides have slept for a while, from
// EnqueueRequest to its continuation, beside a plain blocking receive and echo; and how
// much of a core the sleeping server takes. Client on core 0, server on core 1, in
// threads of their own.
//
//	go test -run xxx -bench Idle -benchtime 100x ./erpc/udptest
func BenchmarkIdle(b *testing.B) {
	for _, idle := range []time.Duration{time.Millisecond, 10 * time.Millisecond,
		200 * time.Millisecond} {
		b.Run(fmt.Sprintf("plain/idle=%v", idle), func(b *testing.B) { idlePlain(b, idle) })
		b.Run(fmt.Sprintf("erpc/idle=%v", idle), func(b *testing.B) { idleRPC(b, idle) })
	}
}

// onCore runs f in a thread of its own on a core; the thread ends with it. The result is closed at
// the end.
func onCore(core int, f func()) chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread()
		var set unix.CPUSet
		set.Set(core % runtime.NumCPU())
		_ = unix.SchedSetaffinity(0, &set)
		f()
	}()
	return ended
}

// cpuTime returns what the calling thread has used, ns.
func cpuTime() int64 {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_THREAD, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}

func reportIdle(b *testing.B, took []float64) {
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2]/1e3, "p50-us")
	b.ReportMetric(took[len(took)*99/100]/1e3, "p99-us")
	b.ReportMetric(0, "ns/op")
}

func loopbackSocket(b *testing.B) (fd int, addr unix.Sockaddr) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		b.Fatal(err)
	}
	if err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		b.Fatal(err)
	}
	addr, err = unix.Getsockname(fd)
	if err != nil {
		b.Fatal(err)
	}
	return fd, addr
}

// idlePlain: the server sleeps in recvfrom; the client sleeps, sends and spins.
func idlePlain(b *testing.B, idle time.Duration) {
	server, addr := loopbackSocket(b)
	client, _ := loopbackSocket(b)
	defer unix.Close(server)
	defer unix.Close(client)
	served := onCore(1, func() {
		buf := make([]byte, 100)
		for {
			n, from, err := unix.Recvfrom(server, buf, 0)
			if err != nil || n == 0 {
				return
			}
			_ = unix.Sendto(server, buf[:n], 0, from)
		}
	})
	var took []float64
	<-onCore(0, func() {
		buf := make([]byte, 56)
		for range b.N {
			_, _ = unix.Poll(nil, int(idle.Milliseconds()))
			start := time.Now()
			_ = unix.Sendto(client, buf, 0, addr)
			for {
				if _, _, err := unix.Recvfrom(client, buf, unix.MSG_DONTWAIT); err == nil {
					break
				}
			}
			took = append(took, float64(time.Since(start)))
		}
		_ = unix.Sendto(client, nil, 0, addr)
	})
	<-served
	reportIdle(b, took)
}

// idleEndpoint opens an endpoint on loopback that waits adaptively.
func idleEndpoint(b *testing.B) *erpc.Rpc {
	nexus, err := erpc.NewNexus(erpc.Config{Wait: erpc.WaitAdaptive, LockThread: true})
	if err != nil {
		b.Fatal(err)
	}
	if err = nexus.Register(1, erpc.Dispatch,
		func(r erpc.ReqHandle) { _ = r.RespondBytes(r.Data()) }); err != nil {
		b.Fatal(err)
	}
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		b.Fatal(err)
	}
	r, err := nexus.NewRpc(tr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := r.Close(); err != nil {
			b.Error(err)
		}
	})
	return r
}

func idleRPC(b *testing.B, idle time.Duration) {
	server, client := idleEndpoint(b), idleEndpoint(b)
	var stop atomic.Bool
	var used, wall int64
	served := onCore(1, func() {
		start := time.Now()
		before := cpuTime()
		_ = server.Run(stop.Load)
		used, wall = cpuTime()-before, int64(time.Since(start))
	})
	var took []float64
	<-onCore(0, func() { took = idleClient(b, client, server.LocalAddr().String(), idle) })
	stop.Store(true)
	server.Wake()
	<-served
	reportIdle(b, took)
	b.ReportMetric(100*float64(used)/float64(wall), "%core")
}

// idleClient makes an RPC now and then.
func idleClient(b *testing.B, r *erpc.Rpc, addr string, idle time.Duration) (took []float64) {
	s, err := r.CreateSession(addr)
	if err != nil {
		b.Error(err)
		return []float64{0}
	}
	req, _ := r.Alloc(32)
	resp, _ := r.Alloc(32)
	done := true
	finish := func(c erpc.Completion) {
		done = true
		if c.Err != nil {
			b.Error(c.Err)
		}
	}
	for range b.N + 1 {
		start := time.Now()
		done = false
		if _, err = r.EnqueueRequest(s,
			erpc.Request{Type: 1, Req: req, Resp: resp, Done: finish}); err != nil {
			b.Error(err)
			break
		}
		_ = r.Run(func() bool { return done })
		took = append(took, float64(time.Since(start)))
		_ = r.RunFor(idle)
	}
	req.Free()
	resp.Free()
	_ = r.CloseSession(s)
	return took[1:] // the first one connects
}
