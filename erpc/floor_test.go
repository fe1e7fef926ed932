package erpc_test

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/wire"
)

// TestHoldsThatLie: hold times that leave nothing of a round trip are looked into with pings. From
// then on round trips count with half of what the path took at best.
func TestHoldsThatLie(t *testing.T) {
	cfg := erpc.Config{}
	p := newErrPair(t, cfg)
	p.tick = 100_000 // which a round trip takes
	p.connect()
	lie := true
	p.cend.lose = func(pkt []byte) bool {
		if lie && wire.Type(pkt[0]&15) == wire.TypeResp {
			wire.SetHold(pkt, 6000) // 384 us
		}
		return false
	}
	for range 200 {
		is(t, "a call", p.call(tEcho, 10).err, nil)
		p.pass(20)
	}
	st := p.published()
	least := st.RTT.Quantile(0.9)
	lie = false
	is(t, "a call", p.call(tEcho, 10).err, nil)
	if least < 48*time.Microsecond {
		t.Errorf("most round trips with a liar took %v", least)
	}
	p.close()
}
