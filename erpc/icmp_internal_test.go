package erpc

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// TestICMPEndsSleep: a loop that is about to sleep takes ICMP errors first.
func TestICMPEndsSleep(t *testing.T) {
	st := newStub(t, Config{Timing: Timing{FailureTimeout: time.Hour, Heartbeat: time.Minute}})
	s := st.dialTo(1)
	st.accepted(s, 1, 7)
	st.pass(time.Second)
	st.end.sent = nil
	st.end.said = []transport.Hint{{Kind: transport.HintUnreachable, To: stubAddr(1)}}
	if err := st.sleep(-1); err != nil {
		t.Fatal(err)
	}
	if st.end.waits != 0 {
		t.Error("the loop waited")
	}
	st.pass(0)
	if ops := st.take(); len(ops) != 1 || ops[0] != wire.OpPing || s.Err() != nil {
		t.Errorf("the next pass sent %v, %v", ops, s.Err())
	}
}
