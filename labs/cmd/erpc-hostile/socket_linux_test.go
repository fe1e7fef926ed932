package main

import (
	"errors"
	"math"
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// testSocket returns a socket to a target on this machine.
func testSocket(t *testing.T) *socket {
	t.Helper()
	sink, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sink.Close() })
	s, err := open(netip.MustParseAddrPort(sink.LocalAddr().String()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

// TestAddresses: the kernel sends from the address of every number, and none is the first one.
func TestAddresses(t *testing.T) {
	s := testSocket(t)
	for _, n := range []uint32{0, 1, 253, 254, 255, 256, 0xFFFF, 1 << 16, 1<<24 - 6, 1<<24 - 5,
		1<<24 - 4, 1<<24 - 3, 1<<24 - 2, 1<<24 - 1, 1 << 24, math.MaxUint32 - 1, math.MaxUint32} {
		from := addressOf(n)
		if err := s.send([]byte("x"), from); err != nil {
			t.Errorf("number %#x: %v", n, err)
		}
		if from[0] != 127 || from == [4]byte{127, 0, 0, 1} {
			t.Errorf("number %#x: %v", n, netip.AddrFrom4(from))
		}
	}
}

// TestUnreachable: when nothing can be sent from an address, the error names it.
func TestUnreachable(t *testing.T) {
	err := testSocket(t).send([]byte("x"), [4]byte{127, 255, 255, 255})
	if !errors.Is(err, unix.ENETUNREACH) || !strings.Contains(err.Error(), "127.255.255.255") {
		t.Error(err)
	}
}
