package afxdp

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/rawudp/rawtest"
	"github.com/userspace-rpc/erpc/transport/rawudp/vethtest"
)

// BenchmarkRPC makes calls of the library one after the other across a pair, over XDP sockets in
// both modes, packet sockets and the kernel's UDP sockets.
func BenchmarkRPC(b *testing.B) {
	for _, name := range []string{"generic", "native", "afpacket", "udp"} {
		b.Run(name, func(b *testing.B) {
			p := vethtest.New(b, 1500)
			open := func(s *vethtest.Side) transport.Transport {
				switch name {
				case "udp":
					return rawtest.UDPOn(b, s, s.IP4)
				case "afpacket":
					return packetOn(b, s, s.IP4)
				case "generic":
					return listenOn(b, s, s.IP4, Config{Mode: ModeGeneric})
				}
				return listenOn(b, s, s.IP4, Config{Mode: ModeNative})
			}
			server, client := open(p.B), open(p.A)
			s, err := erpc.NewServer(erpc.Config{})
			if err != nil {
				b.Fatal(err)
			}
			if err := s.HandleInline(1,
				func(r erpc.ReqHandle) { _ = r.RespondBytes(r.Data()) }); err != nil {
				b.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- s.Serve(server) }()
			b.Cleanup(func() {
				s.Close()
				<-ended
			})
			c, err := erpc.Dial(b.Context(), client, server.LocalAddr().String(), erpc.Config{})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			req, took := make([]byte, 32), make([]time.Duration, 0, b.N)
			var resp []byte
			b.ResetTimer()
			for range b.N {
				began := time.Now()
				if resp, err = c.AppendCall(b.Context(), resp[:0], 1, req); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			b.ReportMetric(quantile(took, 0.5)/1e3, "p50-us")
			b.ReportMetric(quantile(took, 0.99)/1e3, "p99-us")
		})
	}
}
