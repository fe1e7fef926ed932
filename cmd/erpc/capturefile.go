package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// captureFile reads the UDP packets of a capture, pcap or pcapng.
type captureFile struct {
	read   func() ([]byte, gopacket.CaptureInfo, error)
	link   layers.LinkType // of all frames, if not mixed; else any
	mixed  bool            // each frame says its link type
	frames int             // read so far

	// Of the frame that was read last, until the next one:
	frame     []byte
	info      gopacket.CaptureInfo
	frameLink layers.LinkType
	packet    gopacket.Packet
}

// datagram is a UDP packet of a capture.
type datagram struct {
	at       time.Time
	src, dst netip.AddrPort
	data     []byte // the payload, padded with zeros to its true size if the capture cut it
	captured int    // bytes of it that are really there
}

// Magic numbers of capture files, as their first four bytes.
var (
	magicNg   = [4]byte{0x0A, 0x0D, 0x0D, 0x0A}
	magicPcap = map[[4]byte]bool{
		{0xD4, 0xC3, 0xB2, 0xA1}: true, {0xA1, 0xB2, 0xC3, 0xD4}: true, // microseconds
		{0x4D, 0x3C, 0xB2, 0xA1}: true, {0xA1, 0xB2, 0x3C, 0x4D}: true, // nanoseconds
	}
)

// maxDatagram is more than any transport sends: what claims to be larger is not believed.
const maxDatagram = 1 << 20

// openCapture reads the file's header.
func openCapture(r io.Reader) (*captureFile, error) {
	in := bufio.NewReader(r)
	start, err := in.Peek(4)
	switch {
	case len(start) == 4:
	case err == io.EOF:
		return nil, fmt.Errorf("is no capture: only %d bytes", len(start))
	default:
		return nil, err
	}
	switch magic := [4]byte(start); {
	case magic == magicNg:
		ng, err := pcapgo.NewNgReader(in,
			pcapgo.NgReaderOptions{WantMixedLinkType: true, SkipUnknownVersion: true})
		if err != nil {
			return nil, fmt.Errorf("is no sound pcapng file: %w", unexpected(err))
		}
		return &captureFile{read: ng.ZeroCopyReadPacketData, link: layers.LinkTypeEthernet,
			mixed: true}, nil
	case magicPcap[magic]:
		p, err := pcapgo.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("is no sound pcap file: %w", unexpected(err))
		}
		// The upper half of the field is about check sequences, not the link type.
		return &captureFile{read: p.ZeroCopyReadPacketData, link: p.LinkType()}, checkLink(p.LinkType())
	}
	return nil, fmt.Errorf("is no capture: it begins with % x, which is neither pcap nor pcapng",
		start)
}

// unexpected is err, but the end of the file is one that comes too early.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// checkLink complains about link types that gopacket does not decode.
func checkLink(link layers.LinkType) error {
	if int(link) >= len(layers.LinkTypeMetadata) || layers.LinkTypeMetadata[link].DecodeWith == nil ||
		link.String() == "UnknownLinkType" {
		return fmt.Errorf("has frames of link type %d, which is not understood; capture on an Ethernet "+
			"interface, or any", int(link))
	}
	return nil
}

// next returns the next UDP packet; ok is false if the next frame holds none. The datagram
// is valid until the next call. The error is io.EOF at the end of a sound file.
func (c *captureFile) next() (d datagram, ok bool, err error) {
	frame, info, err := c.read()
	if err == io.EOF && info.CaptureLength > 0 {
		err = io.ErrUnexpectedEOF // the end came between a record's header and its bytes
	}
	if err == io.EOF {
		return d, false, err
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return d, false, fmt.Errorf("is cut off after %d packets", c.frames)
	}
	if err != nil {
		return d, false, fmt.Errorf("is damaged after %d packets: %w", c.frames, err)
	}
	link := c.link
	if c.mixed {
		link, _ = info.AncillaryData[0].(layers.LinkType)
		if err := checkLink(link); err != nil {
			return d, false, err
		}
	}
	c.frames++
	d.at = info.Timestamp
	c.frame, c.info, c.frameLink = frame, info, link
	c.packet = gopacket.NewPacket(frame, link, gopacket.DecodeOptions{Lazy: true, NoCopy: true})
	return d, d.find(c.packet, info.Length-info.CaptureLength), nil
}

// find takes the UDP packet out of a frame of which missing bytes were not captured.
func (d *datagram) find(p gopacket.Packet, missing int) bool {
	udp, ok := p.Layer(layers.LayerTypeUDP).(*layers.UDP)
	if !ok || p.NetworkLayer() == nil {
		return false
	}
	flow := p.NetworkLayer().NetworkFlow()
	src, ok1 := netip.AddrFromSlice(flow.Src().Raw())
	dst, ok2 := netip.AddrFromSlice(flow.Dst().Raw())
	if !ok1 || !ok2 {
		return false
	}
	d.src = netip.AddrPortFrom(src.Unmap(), uint16(udp.SrcPort))
	d.dst = netip.AddrPortFrom(dst.Unmap(), uint16(udp.DstPort))
	d.data, d.captured = udp.Payload, len(udp.Payload)
	size := int(udp.Length) - 8
	if udp.Length == 0 { // a jumbogram (RFC 2675), whose true length stands elsewhere
		size = d.captured + max(0, missing)
	}
	if size > d.captured && size <= maxDatagram {
		d.data = append(d.data[:d.captured:d.captured], make([]byte, size-d.captured)...)
	}
	return true
}
