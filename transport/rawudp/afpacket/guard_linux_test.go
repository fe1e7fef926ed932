package afpacket

import (
	"testing"

	"github.com/userspace-rpc/erpc/transport/rawudp/vethtest"
)

func TestGuardAttaches(t *testing.T) {
	p := vethtest.New(t, 1500)
	c := listenOn(t, p.A, p.A.IP4, Config{})
	if on, err := c.Guarded(); !on {
		t.Fatal(err)
	}
}
