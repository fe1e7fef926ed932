package auto

import (
	"os"
	"runtime"
	"testing"

	"github.com/userspace-rpc/erpc/transport/shm"
	"golang.org/x/sys/unix"
)

// listenElsewhere opens an endpoint in a network namespace of its own.
func listenElsewhere(t *testing.T, addr string, cfg Config) *Conn {
	t.Helper()
	type outcome struct {
		c            *Conn
		denied, fail error
	}
	ch := make(chan outcome)
	go func() {
		var o outcome
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if o.denied = unix.Unshare(unix.CLONE_NEWNET); o.denied == nil {
			o.c, o.fail = Listen(addr, cfg)
		}
		ch <- o
	}()
	o := <-ch
	if o.denied != nil {
		if os.Getenv("CI") == "true" && os.Getuid() == 0 {
			t.Fatalf("unshare: %v", o.denied)
		}
		t.Skipf("no right to make a network namespace: %v", o.denied)
	}
	if o.fail != nil {
		t.Fatal(o.fail)
	}
	t.Cleanup(func() { o.c.Close() })
	return o.c
}

// TestNamespaces: an endpoint with the same address in another network namespace is never
// taken for one of this, though both meet in one directory.
func TestNamespaces(t *testing.T) {
	needShared(t)
	cfg := meeting(t)
	here, client := listen(t, "0.0.0.0:0", cfg), listen(t, "127.0.0.1:0", cfg)
	text := textOf("127.0.0.1", here)
	there := listenElsewhere(t, textOf("0.0.0.0", here), cfg)
	if on, why := there.SharedMemory(); !on {
		t.Fatalf("no shared memory in the other namespace: %v", why)
	}
	if to, err := client.Resolve(text); err != nil || to != here.shm.LocalAddr() {
		t.Errorf("Resolve = %v, %v, want %v", to, err, here.shm.LocalAddr())
	}
	if err := here.Close(); err != nil {
		t.Fatal(err)
	}
	if to, err := client.Resolve(text); err != nil || shm.IsAddr(&to) {
		t.Errorf("Resolve without the endpoint here = %v, %v", to, err)
	}
}
