package shm

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"

	"github.com/userspace-rpc/erpc/rfp/onesided"
	"go.uber.org/goleak"
)

// TestStuckPeers holds that peers which say nothing, more of them than there is room for, stop
// nobody: the oldest are ended.
func TestStuckPeers(t *testing.T) {
	running := goleak.IgnoreCurrent()
	own := []onesided.Spec{{Size: 4096, Access: onesided.PeerReads}}
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen(path, own, own)
	if err != nil {
		t.Fatal(err)
	}
	var stuck []*net.UnixConn
	for range 2 * handshakes {
		c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		stuck = append(stuck, c)
	}
	for range 3 {
		x, err := Dial(path, own, own)
		if err != nil {
			t.Fatal(err)
		}
		y, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = x.Close(), y.Close()
	}
	var b [1]byte
	if _, err := stuck[0].Read(b[:]); !errors.Is(err, io.EOF) {
		t.Errorf("the oldest of too many: %v, want its end", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	for _, c := range stuck {
		_ = c.Close()
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept of a closed listener: %v", err)
	}
	if err := goleak.Find(running); err != nil {
		t.Error(err)
	}
}

// TestUnaccepted holds that links which nobody accepts are bounded, and end with the listener.
func TestUnaccepted(t *testing.T) {
	own := []onesided.Spec{{Size: 4096, Access: onesided.PeerReads}}
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen(path, own, nil)
	if err != nil {
		t.Fatal(err)
	}
	var links []*Link
	for range handshakes {
		x, err := Dial(path, nil, own)
		if err != nil {
			t.Fatal(err)
		}
		links = append(links, x)
	}
	if n := len(l.room); n != handshakes {
		t.Errorf("%d places in use, want %d", n, handshakes)
	}
	waiting := make(chan error, 1)
	go func() { // waits for a place, which there never is
		x, err := Dial(path, nil, own)
		if err == nil {
			err = x.Close()
		}
		waiting <- err
	}()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-waiting; err == nil {
		t.Error("a link of a closed listener")
	}
	for _, x := range links {
		for x.Err() == nil {
		}
		_ = x.Close()
	}
}
