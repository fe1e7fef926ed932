package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/outfile"
)

// plainComment marks the captures of --write, whose packets are not those that were on the wire.
const plainComment = "erpc decode --write: sealed packets that a key log opens are in plaintext"

// plainFile is the capture, pcapng, that --write makes.
type plainFile struct {
	name         string
	file         *os.File
	w            *pcapgo.NgWriter        // nil before the first frame
	links        map[layers.LinkType]int // the interface of each
	opened, left int                     // sealed packets, in plaintext or not
}

// createPlain makes the file, or empties it; its owner only may read it. In is the capture, keys
// the name of the key log: none of these is emptied.
func createPlain(name string, in io.Reader, keys string) (*plainFile, error) {
	if now, err := os.Stat(name); err == nil {
		if f, ok := in.(*os.File); ok {
			if from, err := f.Stat(); err == nil && os.SameFile(now, from) {
				return nil, cli.Usagef("--write %s: that is the capture itself", name)
			}
		}
		if log, err := os.Stat(keys); err == nil && os.SameFile(now, log) {
			return nil, cli.Usagef("--write %s: that is the key log", name)
		}
	}
	f, err := outfile.Create(name, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--write: %w", err)
	}
	return &plainFile{name: name, file: f, links: map[layers.LinkType]int{}}, nil
}

// add writes the frame that was read last. Plain is its plaintext, nil if nothing was
// opened. Sealed says that it is a sealed packet.
func (o *plainFile) add(from *captureFile, plain []byte, sealed bool) error {
	frame, info := from.frame, from.info
	var out []byte
	if plain != nil {
		out = withPayload(from.packet, frame, plain)
	}
	switch {
	case out != nil:
		o.opened++
		frame, info.CaptureLength, info.Length = out, len(out), len(out)
	case sealed:
		o.left++
	}
	err := o.use(from.frameLink)
	if err == nil {
		info.InterfaceIndex = o.links[from.frameLink]
		err = o.w.WritePacket(info, frame)
	}
	return o.named(err)
}

// use makes an interface for a link type.
func (o *plainFile) use(link layers.LinkType) (err error) {
	if _, ok := o.links[link]; ok {
		return nil
	}
	in := pcapgo.NgInterface{LinkType: link}
	if o.w != nil {
		o.links[link], err = o.w.AddInterface(in)
		return err
	}
	o.w, err = pcapgo.NewNgWriterInterface(o.file, in,
		pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{Comment: plainComment}})
	o.links[link] = 0
	return err
}

// named is err with the flag.
func (o *plainFile) named(err error) error {
	if err != nil {
		err = fmt.Errorf("--write: %w", err)
	}
	return err
}

// close ends the file and says what is in it. Link is that of a file without frames.
func (o *plainFile) close(to io.Writer, link layers.LinkType) error {
	var err error
	if o.w == nil {
		err = o.use(link)
	}
	if err == nil {
		err = o.w.Flush()
	}
	if err = errors.Join(err, o.file.Close()); err != nil {
		return o.named(err)
	}
	fmt.Fprintf(to, "%d packets of %s are in plaintext, %d stay sealed\n", o.opened, o.name, o.left)
	return nil
}

// Sizes of headers in bytes, and of what a length field of 16 bits can say.
const (
	udpHeader = 8
	ip6Header = 40
	maxLength = 1<<16 - 1
)

// withPayload returns a frame whose UDP packet has another payload, and right lengths and
// checksums; nil if other headers than these have lengths or checksums too, as those of tunnels do.
func withPayload(p gopacket.Packet, frame, payload []byte) []byte {
	ip, at := -1, 0
	for _, l := range p.Layers() {
		switch l.LayerType() {
		case layers.LayerTypeUDP:
			if ip < 0 {
				return nil
			}
			return fitted(slices.Concat(frame[:at+udpHeader], payload), ip, at)
		case layers.LayerTypeIPv4, layers.LayerTypeIPv6:
			if ip >= 0 {
				return nil
			}
			ip = at
		case layers.LayerTypeEthernet, layers.LayerTypeDot1Q, layers.LayerTypeLoopback,
			layers.LayerTypeLinuxSLL, layers.LayerTypeLinuxSLL2,
			layers.LayerTypeIPv6HopByHop, layers.LayerTypeIPv6Destination:
		default:
			return nil
		}
		at += len(l.LayerContents())
	}
	return nil
}

// fitted sets the lengths and checksums of a frame that ends with its UDP packet. Its IP header is
// at ip, the one of UDP at udp.
func fitted(frame []byte, ip, udp int) []byte {
	size := len(frame) - ip
	var addresses []byte
	if frame[ip]>>4 == 4 {
		if size > maxLength {
			return nil
		}
		head := frame[ip:][:int(frame[ip]&15)*4]
		binary.BigEndian.PutUint16(head[2:], uint16(size))
		binary.BigEndian.PutUint16(head[10:], 0)
		sum := gopacket.FoldChecksum(gopacket.ComputeChecksum(head, 0))
		binary.BigEndian.PutUint16(head[10:], sum)
		addresses = head[12:20]
	} else {
		frame, udp = fitted6(frame, ip, udp)
		addresses = frame[ip+8:][:32]
	}
	fitUDP(frame[udp:], addresses)
	return frame
}

// fitted6 sets the length in an IPv6 header. A jumbogram (RFC 2675) that has become short enough
// is one no longer, and loses its hop-by-hop options. Udp is where the UDP header then is.
func fitted6(frame []byte, ip, udp int) (_ []byte, at int) {
	size := len(frame) - ip - ip6Header
	if binary.BigEndian.Uint16(frame[ip+4:]) == 0 { // a jumbogram
		options := frame[ip+ip6Header:]
		n := (int(options[1]) + 1) * 8
		if size-n > maxLength {
			setJumbo(options[:n], size)
			return frame, udp
		}
		frame[ip+6] = options[0] // the header that follows
		frame = slices.Delete(frame, ip+ip6Header, ip+ip6Header+n)
		size, udp = size-n, udp-n
	}
	binary.BigEndian.PutUint16(frame[ip+4:], uint16(size))
	return frame, udp
}

// setJumbo sets the length in hop-by-hop options, which was found when the frame was read.
func setJumbo(options []byte, size int) {
	for at := 2; at+6 <= len(options); {
		switch options[at] {
		case 0: // a pad of one byte
			at++
		case layers.IPv6HopByHopOptionJumbogram:
			binary.BigEndian.PutUint32(options[at+2:], uint32(size))
			return
		default:
			at += 2 + int(options[at+1])
		}
	}
}

// fitUDP sets the length and the checksum of a UDP packet between two IP addresses.
func fitUDP(pkt, addresses []byte) {
	size := len(pkt)
	if size > maxLength {
		size = 0 // RFC 2675, section 4
	}
	binary.BigEndian.PutUint16(pkt[4:], uint16(size))
	binary.BigEndian.PutUint16(pkt[6:], 0)
	sum := gopacket.ComputeChecksum(addresses, uint32(layers.IPProtocolUDP))
	sum = gopacket.ComputeChecksum(binary.BigEndian.AppendUint32(nil, uint32(len(pkt))), sum)
	folded := gopacket.FoldChecksum(gopacket.ComputeChecksum(pkt, sum))
	if folded == 0 {
		folded = 1<<16 - 1 // 0 means that there is none
	}
	binary.BigEndian.PutUint16(pkt[6:], folded)
}
