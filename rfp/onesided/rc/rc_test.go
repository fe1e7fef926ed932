package rc

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/userspace-rpc/erpc/internal/verbs"
	"github.com/userspace-rpc/erpc/rfp/onesided"
	"github.com/userspace-rpc/erpc/rfp/onesided/conformance"
)

// The devices of scripts/rdma-lab.
var (
	here  = Config{Host: netip.MustParseAddr("10.9.0.1")}
	there = Config{Host: netip.MustParseAddr("10.9.0.2")}
)

func needDevices(t testing.TB) {
	t.Helper()
	names, err := verbs.Devices()
	if slices.Contains(names, "rxe0") && slices.Contains(names, "rxe1") {
		return
	}
	if os.Getenv("RDMA_LAB") != "" {
		t.Fatalf("devices %v, %v, and this is the lab", names, err)
	}
	t.Skipf("no devices rxe0 and rxe1 (%v): see scripts/rdma-lab", err)
}

// conns is a TCP connection within this process.
func conns(t testing.TB) (a, b net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if a, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// pair joins two links in this process.
func pair(t testing.TB, a, b []onesided.Spec) (x, y *Link) {
	t.Helper()
	ca, cb := conns(t)
	type result struct {
		l   *Link
		err error
	}
	ch := make(chan result, 1)
	go func() {
		l, err := Join(cb, b, a, there)
		ch <- result{l, err}
	}()
	x, err := Join(ca, a, b, here)
	r := <-ch
	if err != nil || r.err != nil {
		t.Fatal(err, r.err)
	}
	return x, r.l
}

func TestConformance(t *testing.T) {
	needDevices(t)
	conformance.Run(t, func(t *testing.T, a, b []onesided.Spec) conformance.Pair {
		x, y := pair(t, a, b)
		return conformance.Pair{A: x, B: y, Step: runtime.Gosched}
	})
}

// TestAllocations holds that a link in use allocates nothing.
func TestAllocations(t *testing.T) {
	needDevices(t)
	x, y := pair(t, []onesided.Spec{{Size: 4096}}, []onesided.Spec{{Size: 4096,
		Access: onesided.PeerReads | onesided.PeerWrites}})
	defer y.Close()
	defer x.Close()
	var b onesided.Batch
	room := make([]onesided.Completion, 4)
	n := testing.AllocsPerRun(100, func() {
		b.Reset()
		b.Write(0, 0, 0, 0, 64, 1, false)
		b.Read(0, 64, 0, 0, 64, 2)
		if err := x.Post(&b); err != nil {
			panic(err)
		}
		for x.Poll(room) == 0 {
			runtime.Gosched()
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestForged holds that an adapter refuses what a peer does with a key beyond its rights, and that
// it ends that link.
func TestForged(t *testing.T) {
	needDevices(t)
	specs := []onesided.Spec{{Size: 4096, Access: onesided.PeerReads}}
	x, y := pair(t, []onesided.Spec{{Size: 4096}}, specs)
	defer y.Close()
	defer x.Close()
	x.peer = []onesided.Spec{{Size: 4096, Access: onesided.PeerReads | onesided.PeerWrites}}
	copy(x.Region(0), "forged")
	var b onesided.Batch
	b.Write(0, 0, 0, 0, 8, 7, true)
	if err := x.Post(&b); err != nil {
		t.Fatal(err)
	}
	room := make([]onesided.Completion, 1)
	for x.Poll(room) == 0 {
		runtime.Gosched()
	}
	if room[0].ID != 7 || !errors.Is(room[0].Err, onesided.ErrAccess) || y.Region(0)[0] != 0 {
		t.Errorf("%+v, %q", room[0], y.Region(0)[:6])
	}
}

// TestRefused holds that sides with different regions, and junk, make no link.
func TestRefused(t *testing.T) {
	needDevices(t)
	own := []onesided.Spec{{Size: 4096, Access: onesided.PeerReads}}
	a, b := conns(t)
	errs := make(chan error, 1)
	go func() {
		_, err := Join(b, own, own, there)
		errs <- err
	}()
	if _, err := Join(a, own, []onesided.Spec{{Size: 8192}}, here); !errors.Is(err, onesided.ErrSpec) {
		t.Errorf("other regions: %v, want ErrSpec", err)
	}
	if err := <-errs; err == nil {
		t.Error("a link with other regions")
	}
	a, b = conns(t)
	go func() {
		_, _ = b.Write(make([]byte, cardBytes))
		_, _ = io.Copy(io.Discard, b)
	}()
	if _, err := Join(a, own, own, here); !errors.Is(err, onesided.ErrSpec) {
		t.Errorf("junk: %v, want ErrSpec", err)
	}
}

func sample() card {
	own := []onesided.Spec{{Size: 64, Access: onesided.PeerReads}}
	return card{specs: [2][]onesided.Spec{own, {{Size: 8}, {Size: 16}}},
		gid: verbs.GID{1, 2, 3}, lid: 4, qpn: 5, psn: 6, mtu: 1024, reads: 16,
		keys: [onesided.MaxRegions]key{{7, 8}, {9, 10}}}
}

// TestCard holds that a card comes back as it was.
func TestCard(t *testing.T) {
	c := sample()
	var got card
	if err := got.decode(c.encode()); err != nil || !reflect.DeepEqual(got, c) {
		t.Errorf("%+v, %v", got, err)
	}
	if len(c.encode()) != cardBytes {
		t.Errorf("%d bytes, want %d", len(c.encode()), cardBytes)
	}
}

// FuzzCard gives a side any card.
func FuzzCard(f *testing.F) {
	c := sample()
	f.Add(c.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		var got card
		if err := got.decode(b); err != nil {
			if !errors.Is(err, onesided.ErrSpec) {
				t.Errorf("%v, want ErrSpec", err)
			}
			return
		}
		var again card
		if err := again.decode(got.encode()); err != nil || !reflect.DeepEqual(got, again) {
			t.Errorf("%+v, then %+v, %v", got, again, err)
		}
	})
}

// TestMissing holds that a machine without adapters gets an error that says so.
func TestMissing(t *testing.T) {
	if _, err := verbs.FindSite("", netip.Addr{}); err == nil {
		t.Skip("this machine has an adapter")
	}
	a, b := conns(t)
	defer b.Close()
	if _, err := Join(a, nil, nil, Config{}); err == nil {
		t.Error("a link without an adapter")
	}
}
