package shm

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/userspace-rpc/erpc/rfp/onesided"
	"github.com/userspace-rpc/erpc/rfp/onesided/conformance"
	"golang.org/x/sys/unix"
)

// pair joins two links in this process.
func pair(t *testing.T, a, b []onesided.Spec) (dialled, accepted *Link) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen(path, b, a)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	type result struct {
		l   *Link
		err error
	}
	ch := make(chan result, 1)
	go func() {
		l, err := l.Accept()
		ch <- result{l, err}
	}()
	x, err := Dial(path, a, b)
	if err != nil {
		t.Fatal(err)
	}
	r := <-ch
	if r.err != nil {
		t.Fatal(r.err)
	}
	return x, r.l
}

func TestConformance(t *testing.T) {
	conformance.Run(t, func(t *testing.T, a, b []onesided.Spec) conformance.Pair {
		x, y := pair(t, a, b)
		return conformance.Pair{A: x, B: y, Step: runtime.Gosched}
	})
	t.Run("Accepted", func(t *testing.T) {
		conformance.Run(t, func(t *testing.T, a, b []onesided.Spec) conformance.Pair {
			x, y := pair(t, a, b)
			return conformance.Pair{A: y, B: x, Step: runtime.Gosched}
		})
	})
}

// TestFirstRegion holds that the first region has a view and a window too.
func TestFirstRegion(t *testing.T) {
	all := []onesided.Spec{{Size: 4096, Access: onesided.PeerReads | onesided.PeerWrites}}
	x, y := pair(t, all, all)
	for _, l := range []*Link{x, y} {
		if len(l.View(0)) != 4096 || len(l.Window(0)) != 4096 {
			t.Errorf("a view of %d bytes, a window of %d", len(l.View(0)), len(l.Window(0)))
		}
		_ = l.Close()
	}
}

// TestFull holds how many completions a link keeps, and that a batch which has more posts nothing.
func TestFull(t *testing.T) {
	spec := []onesided.Spec{{Size: 4096, Access: onesided.PeerWrites}}
	x, y := pair(t, spec, spec)
	defer x.Close()
	defer y.Close()
	post := func(n int, signal bool) error {
		var b onesided.Batch
		for i := range n {
			b.Write(0, 0, 0, 0, 8, uint64(i), signal)
		}
		return x.Post(&b)
	}
	room := make([]onesided.Completion, queue)
	for _, first := range []int{0, 1, queue - 1, queue} {
		if err := post(first, true); err != nil {
			t.Fatalf("%d: %v", first, err)
		}
		if err := post(queue-first+1, true); !errors.Is(err, onesided.ErrFull) {
			t.Errorf("%d more than %d: %v, want ErrFull", queue-first+1, first, err)
		}
		if err := errors.Join(post(queue-first, true), post(queue, false)); err != nil {
			t.Errorf("%d more than %d: %v", queue-first, first, err)
		}
		if n := x.Poll(room); n != queue {
			t.Errorf("%d completions, want %d", n, queue)
		}
	}
}

// TestUnmapped holds that closed links leave no mappings.
func TestUnmapped(t *testing.T) {
	mappings := func() int {
		b, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Count(b, []byte("memfd:"))
	}
	before := mappings()
	spec := []onesided.Spec{{Size: 4096, Access: onesided.PeerReads},
		{Size: 4096, Access: onesided.PeerWrites}, {Size: 4096}}
	x, y := pair(t, spec, spec)
	if n := mappings(); n < 8 {
		t.Errorf("%d mappings of two links, want 8", n)
	}
	for _, l := range []*Link{x, y} {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := mappings(); n > before { // fewer if links of another test have ended meanwhile
		t.Errorf("%d mappings are left", n-before)
	}
}

// TestSealed holds that a client cannot get a writable mapping of what it may only read, nor cut a
// file short.
func TestSealed(t *testing.T) {
	own := []onesided.Spec{{Size: 4096, Access: onesided.PeerReads}, {Size: 4096,
		Access: onesided.PeerWrites}}
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen(path, own, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if link, err := l.Accept(); err == nil {
			<-t.Context().Done()
			_ = link.Close()
		}
	}()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b := hello(nil, own)
	if _, err := c.Write(b[:]); err != nil {
		t.Fatal(err)
	}
	fds, err := receive(c)
	if err != nil || len(fds) != 2 {
		t.Fatal(fds, err)
	}
	for i, fd := range fds {
		defer unix.Close(fd)
		_, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if wantErr := i == 0; (err != nil) != wantErr {
			t.Errorf("file %d: a writable mapping: %v", i, err)
		}
		if i == 0 {
			if _, err := unix.Pwrite(fd, []byte("forged"), 0); err == nil {
				t.Error("what may be read only was written to")
			}
		}
		if unix.Ftruncate(fd, 0) == nil {
			t.Errorf("file %d was cut short", i)
		}
	}
}

func TestRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	own := []onesided.Spec{{Size: 4096, Access: onesided.PeerReads}}
	l, err := Listen(path, own, own)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	got := make(chan error, 1)
	go func() {
		link, err := l.Accept()
		if err == nil {
			err = link.Close()
		}
		got <- err
	}()
	if _, err := Dial(path, own, []onesided.Spec{{Size: 8192}}); !errors.Is(err, onesided.ErrSpec) {
		t.Errorf("other regions: %v, want ErrSpec", err)
	}
	more := []onesided.Spec{{Size: 8192, Access: onesided.PeerReads}}
	if _, err := Dial(path, more, own); !errors.Is(err, onesided.ErrSpec) {
		t.Errorf("own regions of another size: %v, want ErrSpec", err)
	}
	if _, err := Dial(path, []onesided.Spec{{Size: 7}}, own); !errors.Is(err, onesided.ErrSpec) {
		t.Errorf("a bad region: %v, want ErrSpec", err)
	}
	junk, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = junk.Write(make([]byte, 2*helloBytes))
	_ = junk.Close()
	x, err := Dial(path, own, own) // the listener has survived
	if err != nil {
		t.Fatal(err)
	}
	_ = x.Close()
	if err := <-got; err != nil {
		t.Error(err)
	}
	_ = l.Close()
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept of a closed listener: %v", err)
	}
}
