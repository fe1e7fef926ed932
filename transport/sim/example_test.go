package sim_test

import (
	"fmt"
	"log"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/sim"
)

// Two endpoints on a link of 10 Gbit/s in virtual time. A run with the same seed gives the same
// packets at the same times, on every machine.
func Example() {
	net, err := sim.New(sim.Config{
		Seed: 1, LinkBitsPerSec: 10e9, PropDelay: time.Microsecond, MTU: 1472,
	})
	if err != nil {
		log.Fatal(err)
	}
	a, err := net.NewEndpoint(sim.EndpointConfig{Node: 0})
	if err != nil {
		log.Fatal(err)
	}
	b, err := net.NewEndpoint(sim.EndpointConfig{Node: 1})
	if err != nil {
		log.Fatal(err)
	}

	begin := net.Now()
	items := []transport.TxItem{{Dst: b.LocalAddr(), Head: make([]byte, 1250)}}
	if _, err := a.TxBurst(items); err != nil {
		log.Fatal(err)
	}
	var got [1]transport.RxPacket
	n := 0
	for n == 0 && net.Step() {
		if n, err = b.RxBurst(got[:]); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(len(got[0].Data), "bytes after", net.Now().Sub(begin))
	// Output: 1250 bytes after 4µs
}
