package wire_test

import (
	"encoding/hex"
	"fmt"
	"log"

	"github.com/userspace-rpc/erpc/wire"
)

// A packet's header is 24 bytes. Parse checks every field before it fills one in.
func ExampleHeader() {
	const token = 0x55667788
	packet := make([]byte, wire.HeaderSize, wire.HeaderSize+5)
	h := wire.Header{Type: wire.TypeReq, ReqType: 7, MsgSize: 5, Session: 3, ReqNum: 40}
	h.Put(packet, token)
	packet = append(packet, "hello"...)
	fmt.Println(hex.EncodeToString(packet[:wire.HeaderSize]))

	var got wire.Header
	if err := got.Parse(packet); err != nil {
		log.Fatal(err)
	}
	fmt.Println(got.Type, got.ReqType, got.MsgSize, got.Session, got.ReqNum)
	fmt.Println(wire.Token(packet) == token)

	fmt.Println(got.Parse(packet[:10]) != nil) // too short
	// Output:
	// 300700000500000003000000887766552800000000000000
	// REQ 7 5 3 40
	// true
	// true
}

// A bundle carries several packets in one datagram. Parse checks all of them first.
func ExampleBundle() {
	const token = 9
	datagram := make([]byte, wire.BundleHeaderSize, 256)
	for i, word := range []string{"red", "green"} {
		h := wire.Header{Type: wire.TypeReq, ReqType: 1, Session: 3, ReqNum: uint64(8 + i),
			MsgSize: uint32(len(word))}
		at := len(datagram)
		datagram = datagram[:at+wire.RecordSize(&h, len(word), false)]
		n := wire.PutRecord(datagram[at:], &h, len(word), false, token)
		copy(datagram[at+n:], word)
	}
	wire.PutBundle(datagram, wire.Version, 2, len(datagram)-wire.BundleHeaderSize, 3, token)

	var b wire.Bundle
	if err := b.Parse(datagram); err != nil {
		log.Fatal(err)
	}
	var h wire.Header
	for payload, ok := b.Next(&h); ok; payload, ok = b.Next(&h) {
		fmt.Println(h.Type, h.Session, h.ReqNum, string(payload))
	}
	fmt.Println(len(datagram), "bytes in place of", 2*wire.HeaderSize+len("redgreen"))
	// Output:
	// REQ 3 8 red
	// REQ 3 9 green
	// 48 bytes in place of 56
}
