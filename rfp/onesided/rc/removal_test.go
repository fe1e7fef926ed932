package rc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/internal/verbs"
	"github.com/userspace-rpc/erpc/rfp"
	"github.com/userspace-rpc/erpc/rfp/onesided"
)

// TestDeviceRemoval takes the adapter of either side away while calls are under way: in the middle
// of them, and when the server has requests that it has not answered. soft-RoCE waits then until
// nobody uses the device, and says nothing. Each call ends once, on the side whose adapter it was
// with ErrDeviceGone, on the other with ErrPeer; the removal ends too, and new links work over the
// adapter that comes back.
func TestDeviceRemoval(t *testing.T) {
	needDevices(t)
	if os.Getenv("RDMA_LAB") == "" {
		t.Skip("this takes devices away: only in scripts/rdma-lab")
	}
	for name, cfg := range faultModes() {
		for _, answers := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/client's/answers=%v", name, answers), func(t *testing.T) {
				remove(t, cfg, answers, "rxe0", "va", ErrDeviceGone)
			})
			t.Run(fmt.Sprintf("%s/server's/answers=%v", name, answers), func(t *testing.T) {
				remove(t, cfg, answers, "rxe1", "vb", onesided.ErrPeer)
			})
		}
	}
}

// remove runs one case. The client must end with want.
func remove(t *testing.T, cfg rfp.Config, answers bool, device, netdev string, want error) {
	k := newCalls(t, cfg)
	k.fill(40)
	for !answers && k.c.Ready() {
		k.call()
	}
	removed := make(chan error, 1)
	go func() {
		out, err := exec.Command("rdma", "link", "del", device).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		removed <- err
	}()
	for end := monotime.Now().Add(testPatience); !answers && k.x.Err() == nil && k.y.Err() == nil; {
		if monotime.Now() > end {
			t.Fatal("no side notices")
		}
		rest(k.c.Poll(monotime.Now()))
	}
	k.await("end of the client", func() bool {
		for answers && k.c.Ready() {
			k.call()
		}
		return k.c.Err() != nil
	})
	k.await("end of the link at the server", func() bool { return k.srv.Links() == 0 })
	none := answers && k.failed == nil // all had ended when the adapter went
	if !k.idle() || !none && !errors.Is(k.failed, want) || !errors.Is(k.c.Err(), want) {
		t.Errorf("%d calls of %d ended, with %v, the client with %v, want %v", k.ended, k.sent,
			k.failed, k.c.Err(), want)
	}
	if err := k.c.Send(&rfp.Call{Kind: 1}); !errors.Is(err, want) {
		t.Errorf("a call afterwards: %v, want %v", err, want)
	}
	select {
	case err := <-removed:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(testPatience):
		t.Fatalf("%s is still in use", device)
	}
	out, err := exec.Command("rdma", "link", "add", device, "type", "rxe", "netdev", netdev).
		CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if names, err := verbs.Devices(); !slices.Contains(names, device) {
		t.Fatalf("devices %v, %v", names, err)
	}
	again := newCalls(t, cfg)
	again.fill(40)
}
