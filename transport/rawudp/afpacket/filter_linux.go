package afpacket

import (
	"github.com/userspace-rpc/erpc/transport/rawudp"
	"golang.org/x/sys/unix"
)

// Offsets of what the kernel knows of a frame beside its bytes (linux/filter.h, SKF_AD_OFF).
const (
	adPktType        = -0x1000 + 4
	adVLANTagPresent = -0x1000 + 48
)

// filter returns a classic BPF program that lets in the endpoint's frames only: those to this
// machine, without 802.1Q tag (the kernel takes tags out of the frame, so they are asked
// for apart), that match.
func filter(l rawudp.Local) []unix.SockFilter {
	var p []unix.SockFilter
	jumps := []int{}
	test := func(load uint16, k, mask, value uint32) {
		p = append(p, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_ABS | load, K: k})
		if mask != 0xFFFFFFFF {
			p = append(p, unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: mask})
		}
		jumps = append(jumps, len(p))
		p = append(p, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value})
	}
	for _, ad := range []int32{adPktType, adVLANTagPresent} {
		test(unix.BPF_W, uint32(ad), 0xFFFFFFFF, 0) // PACKET_HOST, and no tag
	}
	for _, m := range matches(l) {
		load := map[int]uint16{1: unix.BPF_B, 2: unix.BPF_H, 4: unix.BPF_W}[m.size]
		test(load, uint32(m.at), m.mask, m.value)
	}
	// more than any frame has
	p = append(p, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 1 << 18},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0})
	for _, at := range jumps { // not equal: to the last instruction
		p[at].Jf = uint8(len(p) - 1 - at - 1)
	}
	return p
}

// dropAll is a filter that lets nothing in.
func dropAll() []unix.SockFilter {
	return []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
}
