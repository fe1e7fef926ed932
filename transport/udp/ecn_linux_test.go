package udp

import (
	"testing"

	"github.com/userspace-rpc/erpc/transport"
	"golang.org/x/sys/unix"
)

// TestECN plays the network: it marks the sender's packets "congestion
// experienced" or not by setting their TOS byte at the source.
func TestECN(t *testing.T) {
	for _, v := range []struct{ name, listen, peer, host string }{
		{"v4", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1"},
		{"v6", "[::1]:0", "[::1]:0", "[::1]"},
		{"dual", "[::]:0", "127.0.0.1:0", "127.0.0.1"},
		{"mapped", "127.0.0.1:0", "[::]:0", "127.0.0.1"},
	} {
		t.Run(v.name, func(t *testing.T) {
			a, b := listen(t, v.peer, Config{ECN: true}), listen(t, v.listen, Config{ECN: true})
			dst, err := a.Resolve(v.host + ":" + portText(b))
			if err != nil {
				t.Fatal(err)
			}
			k := a.impl.(*kernelConn)
			if tos, err := unix.GetsockoptInt(k.fd, unix.SOL_IP, unix.IP_TOS); err != nil || tos != 2 {
				t.Errorf("packets leave with TOS %d, %v, want ECT(0)", tos, err)
			}
			for _, tos := range []int{2, 3, 1, 3, 0} {
				opts := []option{{"", unix.SOL_IP, unix.IP_TOS, tos}}
				if !k.ip4 {
					opts = append(opts, option{"", unix.SOL_IPV6, unix.IPV6_TCLASS, tos})
				}
				for _, o := range opts {
					if err := unix.SetsockoptInt(k.fd, o.level, o.opt, o.value); err != nil {
						t.Fatal(err)
					}
				}
				it := transport.TxItem{Dst: dst, Head: make([]byte, 48)}
				transmit(t, a, []transport.TxItem{it})
				transmit(t, a, []transport.TxItem{it, it, it}) // a train, marked as a whole
				for i, p := range receive(t, b, 4, 2) {
					if p.CE != (tos == 3) {
						t.Errorf("TOS %d: packet %d has CE %v", tos, i, p.CE)
					}
				}
			}
		})
	}
}

// FuzzControl feeds the parser of control messages bytes of all kinds.
func FuzzControl(f *testing.F) {
	f.Add(segmentControl(nil))
	f.Add(make([]byte, 80))
	f.Add(pktinfoControl(segmentControl(nil), true))
	f.Add(pktinfoControl(pktinfoControl(nil, true), false))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := receiver{seg: 100}
		r.parseControl(b)
		if r.seg < 1 || r.seg > 100 {
			t.Fatalf("segments of %d bytes", r.seg)
		}
	})
}
