package msgbuf_test

import (
	"fmt"
	"log"

	"github.com/userspace-rpc/erpc/msgbuf"
)

// A buffer lies off the Go heap, with room for the headers of its packets. The
// application writes Data. A transport sends each Packet: a header, and data that lies elsewhere
// but for the first packet.
func Example() {
	pool, err := msgbuf.NewPool(msgbuf.Config{})
	if err != nil {
		log.Fatal(err)
	}
	buf, err := pool.Alloc(2500)
	if err != nil {
		log.Fatal(err)
	}
	copy(buf.Data(), "a message")

	const perPacket = 1000 // data bytes in each packet
	for i := range buf.Packets(perPacket) {
		head, data := buf.Packet(i, perPacket)
		fmt.Println("packet", i, "has", len(head)+len(data), "bytes")
	}
	buf.Free()
	if err := pool.Close(); err != nil { // ErrLeak, if a buffer were still in use
		log.Fatal(err)
	}
	// Output:
	// packet 0 has 1024 bytes
	// packet 1 has 1024 bytes
	// packet 2 has 524 bytes
}
