package flight_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/userspace-rpc/erpc/flight"
	"github.com/userspace-rpc/erpc/packet"
	"github.com/userspace-rpc/erpc/wire"
)

// A ring keeps the newest datagrams, and its dump can be written to a file and read again.
func Example() {
	ring := flight.NewRing(4)
	var peer packet.Addr
	var head [wire.HeaderSize]byte
	const packets = 1000
	for i := range packets {
		h := wire.Header{Type: wire.TypeReq, Session: 1, ReqNum: uint64(i), MsgSize: 2}
		h.Put(head[:], 7)
		ring.Add(flight.Sent, int64(i), &peer, head[:], []byte("hi"))
	}
	dump := ring.Dump(packet.Addr{}, 0, 0)

	var file bytes.Buffer
	if err := flight.Write(&file, dump); err != nil {
		log.Fatal(err)
	}
	dumps, err := flight.Read(&file)
	if err != nil {
		log.Fatal(err)
	}
	last := dumps[0].Entries[len(dumps[0].Entries)-1]
	fmt.Println("last at", last.At, "bytes", last.Size)
	fmt.Println("all accounted for:", int(dumps[0].Missed)+len(dumps[0].Entries) == packets)
	// Output:
	// last at 999 bytes 26
	// all accounted for: true
}
