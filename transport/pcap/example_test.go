package pcap_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/pcap"
	"github.com/userspace-rpc/erpc/transport/sim"
)

// A capture of any transport, for Wireshark and "erpc decode". Create writes to a file.
func Example() {
	net, err := sim.New(sim.Config{Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	inner, err := net.NewEndpoint(sim.EndpointConfig{})
	if err != nil {
		log.Fatal(err)
	}
	var file bytes.Buffer
	capture, err := pcap.New(&file, pcap.Config{})
	if err != nil {
		log.Fatal(err)
	}
	tr := capture.Wrap(inner) // use it in place of inner
	items := []transport.TxItem{{Dst: tr.LocalAddr(), Head: make([]byte, 24)}}
	if _, err := tr.TxBurst(items); err != nil {
		log.Fatal(err)
	}
	if err := tr.Close(); err != nil {
		log.Fatal(err)
	}
	if err := capture.Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Println("packets:", capture.Counts().Packets, "in a file:", file.Len() > 24)
	// Output: packets: 1 in a file: true
}
