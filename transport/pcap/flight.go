package pcap

import (
	"bufio"
	"cmp"
	"io"
	"slices"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/userspace-rpc/erpc/flight"
)

// maxRecorded bounds the length that a damaged record can claim.
const maxRecorded = 1 << 16

// recorded is a datagram of a flight recorder, and whose it is.
type recorded struct {
	*flight.Entry
	own place
}

// WriteFlight writes the datagrams of flight recorders as a capture, in the order of their times.
// Of each there is as much as the recorder kept, and its true length. The format has no place for
// what the recorders missed: see flight.Dump.Gap. The error is that of w.
func WriteFlight(w io.Writer, dumps ...*flight.Dump) error {
	var all []recorded
	for _, d := range dumps {
		for i := range d.Entries {
			if e := &d.Entries[i]; e.Kind != flight.Blind {
				all = append(all, recorded{e, placeOf(&d.Own)})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b recorded) int { return cmp.Compare(a.At, b.At) })
	out := bufio.NewWriter(w)
	records := pcapgo.NewWriterNanos(out)
	if err := records.WriteFileHeader(MaxSnapLen, layers.LinkTypeEthernet); err != nil {
		return err
	}
	frames := newFramer()
	for _, r := range all {
		cut := max(0, min(r.Size, maxRecorded)-len(r.Data))
		frame, err := frames.frame(r.own, placeOf(&r.Peer), r.Kind == flight.Sent, false, r.Data,
			make([]byte, cut))
		if err != nil {
			return err
		}
		info := gopacket.CaptureInfo{Timestamp: r.Time(), Length: len(frame),
			CaptureLength: len(frame) - cut}
		if err := records.WritePacket(info, frame[:len(frame)-cut]); err != nil {
			return err
		}
	}
	return out.Flush()
}
