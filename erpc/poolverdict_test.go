package erpc_test

import (
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
)

// TestPoolAfterVerdict: from when a Pool has noticed that a server is dead or silent, the first
// call and every other one that begins ends well at another server, without asking that one.
func TestPoolAfterVerdict(t *testing.T) {
	for name, fail := range map[string]func(*farmServer){
		"dead":   (*farmServer).die,
		"silent": func(s *farmServer) { s.mute = true },
	} {
		f, p := newPool(t, 2)
		f.all("a call", f.calls(through(p, repeat), tEcho, 0, 100), 100, nil)
		fail(f.servers[0])
		owed := f.calls(through(p, repeat), tEcho, 1000, 10) // some find out
		f.state(p, "s0", erpc.ServerEjected)
		for i := range uint64(100) {
			if err := wait(f, f.calls(through(p, repeat), tEcho, 2000+i, 1), "a call"); err != nil {
				t.Fatalf("%s: call %d after the verdict: %v", name, i, err)
			}
			if n := f.servers[1].runs[2000+i]; n != 1 {
				t.Errorf("%s: call %d after the verdict ran %d times at the other server", name, i, n)
			}
		}
		f.servers[0].mute = false
		for range 10 {
			_ = wait(f, owed, "a call that found out") // well, or lost with the server
		}
	}
}
