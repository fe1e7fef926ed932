package erpc

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// testSealSize is how much longer a packet of a TestSealer is: a counter and a sum over all of it.
const testSealSize = 12

// TestSealer seals as a cipher would: a packet has another counter each time, its payload cannot be
// read, and a packet that was changed or comes twice is not opened. It is no cipher.
type TestSealer struct {
	Calls, Packets, Opened, Refused int
	Twice                           int // packets that came to be sealed a second time
	counter                         uint64
	seen                            map[uint64]bool
}

func (s *TestSealer) overhead() int { return testSealSize }

func (s *TestSealer) seal(arena []byte, pkts []*session.Tx) []byte {
	s.Calls++
	for _, p := range pkts {
		s.Packets++
		if sealed(p.Head) {
			s.Twice++
		}
		start := len(arena)
		arena = append(append(arena, p.Head...), p.Data...)
		pkt := arena[start:]
		s.counter++
		mask(pkt, s.counter)
		arena = binary.LittleEndian.AppendUint64(arena, s.counter)
		arena = binary.LittleEndian.AppendUint32(arena, crc32.ChecksumIEEE(arena[start:]))
		p.Head, p.Data = arena[start:len(arena):len(arena)], nil
	}
	return arena
}

// mask hides and shows a payload.
func mask(pkt []byte, counter uint64) {
	for i := wire.HeaderSize; i < len(pkt); i++ {
		pkt[i] ^= byte(counter*31) + byte(i) + 1
	}
}

func sealed(pkt []byte) bool {
	n := len(pkt) - testSealSize
	return n >= wire.HeaderSize && crc32.ChecksumIEEE(pkt[:n+8]) == binary.LittleEndian.Uint32(pkt[n+8:])
}

func (s *TestSealer) open(pkt []byte) ([]byte, bool) {
	if !sealed(pkt) {
		s.Refused++
		return nil, false
	}
	n := len(pkt) - testSealSize
	counter := binary.LittleEndian.Uint64(pkt[n:])
	if s.seen[counter] {
		s.Refused++
		return nil, false
	}
	s.seen[counter] = true
	s.Opened++
	mask(pkt[:n], counter)
	return pkt[:n], true
}

// Seal makes an Rpc without sessions seal, and returns the associations that it will make.
func (r *Rpc) Seal() map[transport.Addr]*TestSealer {
	made := map[transport.Addr]*TestSealer{}
	r.engine.seam.overhead = testSealSize
	r.engine.seam.associate = func(addr transport.Addr, _ uint64) sealer {
		s := &TestSealer{seen: map[uint64]bool{}}
		made[addr] = s
		return s
	}
	return made
}
