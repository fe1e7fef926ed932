package wire

import (
	"strconv"
	"testing"
)

// benchBundle returns a bundle of n requests with 32 bytes each.
func benchBundle(n int) []byte {
	b := make([]byte, BundleHeaderSize, 1<<16)
	h := Header{Type: TypeReq, ReqType: 1, MsgSize: 32, Session: 3}
	for i := range n {
		h.ReqNum = uint64(i)
		at := len(b)
		b = b[:at+RecordSize(&h, 32, false)]
		PutRecord(b[at:], &h, 32, false, 0)
	}
	PutBundle(b, Version, n, len(b)-BundleHeaderSize, 3, 1)
	return b
}

// BenchmarkBundle parses a bundle and hands out all of its packets. The time of one packet is
// ns/record.
func BenchmarkBundle(b *testing.B) {
	for _, n := range []int{1, 8, 31, 200} {
		pkt := benchBundle(n)
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			var h Header
			sum := 0
			for b.Loop() {
				var x Bundle
				if x.Parse(pkt) != nil {
					b.Fatal("refused")
				}
				for payload, ok := x.Next(&h); ok; payload, ok = x.Next(&h) {
					sum += len(payload)
				}
			}
			sink += uint32(sum)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/record")
		})
	}
}

// BenchmarkBundleLong is BenchmarkBundle for parts of large messages that take turns with CRs of
// another session.
func BenchmarkBundleLong(b *testing.B) {
	const n = 30
	var list []inside
	for i := range uint64(n / 2) {
		list = append(list, inside{Header{Type: TypeReq, MsgSize: 99, Session: 3, ReqNum: i}, 1,
			make([]byte, 32)}, inside{Header{Type: TypeCR, PktNum: 1, Session: 4, ReqNum: i}, 2, nil})
	}
	pkt := bundle(list...)
	var h Header
	for b.Loop() {
		var x Bundle
		if x.Parse(pkt) != nil {
			b.Fatal("refused")
		}
		for _, ok := x.Next(&h); ok; _, ok = x.Next(&h) {
			sink += h.Session
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/record")
}

// BenchmarkPutRecord writes the head of a small request, and of a part of a large one that is of
// another session.
func BenchmarkPutRecord(b *testing.B) {
	for _, another := range []bool{false, true} {
		b.Run(map[bool]string{false: "whole", true: "another"}[another], func(b *testing.B) {
			h := Header{Type: TypeReq, ReqType: 1, MsgSize: 32, Session: 3}
			if another {
				h.MsgSize = 3000
			}
			buf := make([]byte, 64)
			for b.Loop() {
				h.ReqNum++
				sink += uint32(PutRecord(buf, &h, 32, another, 1))
			}
		})
	}
}
