package bulk

import (
	"encoding/binary"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/sim"
)

// sink answers each packet by its number.
type sink struct{ ep *sim.Endpoint }

// RunOnce implements sim.Driver.
func (s *sink) RunOnce() {
	var got [burst]transport.RxPacket
	for {
		n, err := s.ep.RxBurst(got[:])
		if err != nil || n == 0 {
			return
		}
		for i := range got[:n] {
			var ack [ackSize]byte
			putNumber(ack[:], getNumber(got[i].Data))
			items := [1]transport.TxItem{{Dst: got[i].From, Head: ack[:]}}
			if _, err := s.ep.TxBurst(items[:]); err != nil {
				return
			}
		}
	}
}

// NextWake implements sim.Driver.
func (s *sink) NextWake() sim.Time { return sim.Never }

// Packets and answers begin with the number of the packet.
func putNumber(b []byte, k uint64) { binary.LittleEndian.PutUint64(b, k) }

func getNumber(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }
