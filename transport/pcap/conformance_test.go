package pcap

import (
	"bytes"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/gopacket/gopacket"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/conformance"
	"github.com/userspace-rpc/erpc/transport/shm"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// captured returns a way to wrap transports in one capture of their own, which is read
// when the case has ended: it must be sound, and hold what the transports counted.
func captured(tb testing.TB) func(transport.Transport) transport.Transport {
	var file bytes.Buffer
	c := start(tb, &file, Config{Block: true, SnapLen: 256, Buffer: 1 << 20})
	var wrapped []*Transport
	tb.Cleanup(func() {
		finish(tb, c)
		var sent, received, wantSent, wantReceived uint64
		scan(tb, file.Bytes(), func(frame []byte, info gopacket.CaptureInfo) {
			if sent+received < 500 { // decoding all takes long
				decodeFrame(tb, frame, info)
			}
			if bytes.Equal(frame[6:12], ownMAC) {
				sent++
			} else {
				received++
			}
		})
		for _, t := range wrapped {
			wantSent += t.Stats().TxPackets
			wantReceived += t.Stats().RxPackets
		}
		if sent != wantSent || received != wantReceived {
			tb.Errorf("captured %d sent and %d received, the transports counted %d and %d", sent, received,
				wantSent, wantReceived)
		}
	})
	return func(inner transport.Transport) transport.Transport {
		t := c.Wrap(inner)
		wrapped = append(wrapped, t)
		return t
	}
}

func TestConformanceUDP(t *testing.T) {
	conformance.Run(t, func(tb testing.TB) (a, b transport.Transport) {
		wrap := captured(tb)
		open := func() transport.Transport {
			conn, err := udp.Listen("127.0.0.1:0", udp.Config{})
			if err != nil {
				tb.Fatal(err)
			}
			return wrap(conn)
		}
		return open(), open()
	})
}

// TestConformanceShm: addresses that are none of IP, packets that others can write to.
func TestConformanceShm(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("shared memory is for Linux")
	}
	conformance.Run(t, func(tb testing.TB) (a, b transport.Transport) {
		wrap, dir := captured(tb), filepath.Join(tb.TempDir(), "erpc")
		open := func(name string) transport.Transport {
			conn, err := shm.Listen(name, shm.Config{Dir: dir})
			if err != nil {
				tb.Fatal(err)
			}
			return wrap(conn)
		}
		return open("a"), open("b")
	}, conformance.WithBadAddresses("", "not a name", "127.0.0.1:1"), conformance.WithoutSelf())
}

// paths is a transport that has a path to each of some addresses.
type paths struct {
	*fake
	to map[transport.Addr]transport.Path
}

func (p paths) Path(dst transport.Addr) transport.Path { return p.to[dst] }

// TestPath: each destination has the path of the inner transport.
func TestPath(t *testing.T) {
	var file bytes.Buffer
	c := start(t, &file, Config{})
	to := map[transport.Addr]transport.Path{
		{}:                 {MTU: 1 << 20},
		addr("10.0.0.2:2"): {MTU: 777, HostDelay: 5, Shared: true},
		addr("10.0.0.9:9"): {MTU: 888, Checksummed: true, Private: true},
	}
	tr := c.Wrap(paths{newFake("10.0.0.1:1"), to})
	for dst, want := range to {
		if got := tr.Path(dst); got != want {
			t.Errorf("Path(%v) = %+v, want %+v", dst, got, want)
		}
	}
}
