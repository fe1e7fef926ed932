package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/gopacket/gopacket"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/transport/pcap/layer"
	"github.com/userspace-rpc/erpc/wire"
)

type decodeCmd struct {
	File string `arg:"" help:"Capture, pcap or pcapng; - is standard input."`
	Port int    `help:"Take UDP packets from or to this port for eRPC, and no others; 0: what looks like eRPC." placeholder:"N"`
	JSON bool   `name:"json" help:"Print one JSON object."`

	KeyLog string `name:"keylog" help:"Open sealed packets by this SSLKEYLOGFILE." placeholder:"FILE"`
	Write  string `name:"write" help:"With --keylog: write the capture, pcapng, with the packets that it opens in plaintext." placeholder:"FILE"`
}

// Help is shown by --help.
func (decodeCmd) Help() string {
	return `Examples:
  erpc ping 10.0.0.1:31850 --count 3 --pcap ping.pcap
  erpc decode ping.pcap
  erpc decode traffic.pcapng --port 31850 | grep MALFORMED
  tcpdump -i eth0 -w - udp port 31850 | erpc decode -
  erpc decode sealed.pcap --keylog keys --write plain.pcapng

Without --port a packet counts as eRPC if its header is sound, if its port is 31850, or
if its sender or receiver has sent or received a sound one before; a sealed one counts by its port
or by those two. Exit status is 1 if the file is no capture or is damaged; malformed packets in a
sound file are no failure.

Sealed packets are shown as SEALED, with their counter, the receiver's index and loop, and a bit of
the key phase, unless --keylog names the file that SSLKEYLOGFILE named for one of their sides; from
their beginning on, or at any later time. --write makes a capture for Wireshark, whose dissector has
no ciphers: opened packets are in plaintext, with the lengths and checksums of that, and all other
frames are as they were.

A bundle is a line of its own, and so is each packet inside: inside=2 is the second of the bundle
above.

tcpdump on loopback sees several packets of a UDP GSO train as one, which then looks
malformed, or as the first bundle and its padding; --pcap of the other commands captures them one
by one.`
}

// decodeSummary ends what decode prints.
type decodeSummary struct {
	Packets   int            `json:"captured"` // frames in the file
	Erpc      int            `json:"erpc"`     // sound ones
	Types     map[string]int `json:"types"`    // bundles, and the packets inside too
	Malformed int            `json:"malformed"`
	Other     int            `json:"other"` // not eRPC
	Duration  float64        `json:"duration_s"`
	Error     string         `json:"error,omitempty"`
}

// decoder is a decoding under way.
type decoder struct {
	*decodeCmd
	out         *bufio.Writer
	e           layer.ERPC
	bundle      layer.Bundle
	types       layer.Types
	speakers    map[netip.AddrPort]bool // endpoints of sound packets
	keys        *keyring
	plain       []byte     // what was sealed in the packet that was read last, or nil
	left        bool       // that packet is sealed, and was not opened
	write       *plainFile // or nil
	sum         decodeSummary
	first, last time.Time
	printed     int
}

// maxSpeakers bounds the memory for a file with many endpoints.
const maxSpeakers = 1 << 16

// Run implements the subcommand.
func (c *decodeCmd) Run(e *env) error {
	if err := c.check(); err != nil {
		return err
	}
	keys, err := loadKeyLog(c.KeyLog)
	if err != nil {
		return err
	}
	in := e.in
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	file, err := openCapture(in)
	if err != nil {
		return fmt.Errorf("%s %w", c.File, err)
	}
	d := decoder{decodeCmd: c, out: bufio.NewWriter(e.out), speakers: map[netip.AddrPort]bool{},
		keys: keys}
	d.sum.Types = map[string]int{}
	if c.Write != "" {
		if d.write, err = createPlain(c.Write, in, c.KeyLog); err != nil {
			return err
		}
	}
	if c.JSON {
		fmt.Fprintf(d.out, "{\"decode\":%s,\"packets\":[", quoteJSON(c.File))
	}
	for err == nil && e.ctx.Err() == nil {
		err = d.step(file)
	}
	if err == io.EOF {
		err = nil
	}
	if d.write != nil {
		err = errors.Join(err, d.write.close(e.err, file.link))
	}
	return errors.Join(d.finish(file, err), err)
}

// check says what is wrong with the flags.
func (c *decodeCmd) check() error {
	switch {
	case c.Port < 0 || c.Port > 65535:
		return cli.Usagef("--port %d: want 1 to 65535, or 0", c.Port)
	case c.Write != "" && c.KeyLog == "":
		return cli.Usagef("--write needs --keylog: nothing can be opened without")
	case c.Write == "-":
		return cli.Usagef("--write -: standard output has the lines; name a file")
	}
	return nil
}

// step reads and prints one packet. The error is io.EOF at the end of a sound file.
func (d *decoder) step(file *captureFile) error {
	g, ok, err := file.next()
	if err == io.EOF {
		return err
	}
	if err != nil {
		return fmt.Errorf("%s %w", d.File, err)
	}
	d.plain, d.left = nil, false
	if ok {
		ok = d.show(&g)
	}
	if !ok {
		d.sum.Other++
	}
	if d.write != nil {
		if err := d.write.add(file, d.plain, d.plain != nil || d.left); err != nil {
			return err
		}
	}
	if d.File == "-" { // somebody may be watching
		return d.out.Flush()
	}
	return nil
}

// show prints one UDP packet, and reports whether it is eRPC or should be.
func (d *decoder) show(g *datagram) bool {
	here := int(g.src.Port()) == d.Port || int(g.dst.Port()) == d.Port
	if d.Port != 0 && !here {
		return false
	}
	in, sealed, err := d.unseal(g)
	if in == nil && (sealed || err != nil) && d.Port == 0 && g.src.Port() != layer.DefaultPort &&
		g.dst.Port() != layer.DefaultPort &&
		!d.speakers[g.src] && !d.speakers[g.dst] {
		return false
	}
	if d.first.IsZero() {
		d.first = g.at
	}
	d.last = g.at
	l := line{Time: g.at.UTC().Format("2006-01-02T15:04:05.000000000Z"), Src: g.src.String(),
		Dst: g.dst.String(), Bytes: len(g.data)}
	l.Sealed = in
	if g.captured < len(g.data) {
		l.Captured = &g.captured
	}
	var refusal wire.VersionRefusal
	if d.left = sealed && in == nil; d.left {
		d.sum.Erpc++
		l.sealed(g.data)
		d.sum.Types[l.Type]++
	} else if err == wire.ErrVersion && refusal.Parse(g.data) {
		d.sum.Erpc++
		l.refusal(&refusal)
		d.sum.Types[l.Type]++
	} else if err != nil {
		d.sum.Malformed++
		l.Type, l.Malformed = "MALFORMED", reason(err)
	} else {
		d.sound(g, &l)
		return true
	}
	d.print(&l)
	return true
}

// sound prints a sound packet, or a bundle and each packet inside; l has time and addresses.
func (d *decoder) sound(g *datagram, l *line) {
	d.sum.Erpc++
	if len(d.speakers) < maxSpeakers {
		d.speakers[g.src], d.speakers[g.dst] = true, true
	}
	if !wire.IsBundle(g.data) {
		l.fill(&d.e, d.typeOf(g, &d.e), g.captured == len(g.data))
		d.sum.Types[l.Type]++
		d.print(l)
		return
	}
	l.bundle(&d.bundle)
	d.sum.Types[l.Type]++
	d.print(l)
	for i := range d.bundle.Packets {
		e := &d.bundle.Packets[i]
		in := line{Time: l.Time, Src: l.Src, Dst: l.Dst, Inside: i + 1,
			Bytes: len(e.Contents) + len(e.Payload)}
		in.fill(e, d.typeOf(g, e), true)
		d.sum.Types[in.Type]++
		d.print(&in)
	}
}

// typeOf returns the request type of a packet of g, nil if it is not known.
func (d *decoder) typeOf(g *datagram, e *layer.ERPC) *uint8 {
	if typ, ok := d.types.Of(g.src, g.dst, e); ok {
		return &typ
	}
	return nil
}

var errCut = errors.New("cut short by the capture")

// parse reads the header of g into d.e, or all of a bundle into d.bundle.
func (d *decoder) parse(g *datagram) error {
	if wire.IsBundle(g.data) && (g.captured == len(g.data) || g.captured >= wire.BundleHeaderSize) {
		return d.bundle.DecodeCut(g.data[:g.captured], len(g.data), gopacket.NilDecodeFeedback)
	}
	if g.captured < len(g.data) && g.captured < wire.HeaderSize {
		return errCut
	}
	err := d.e.DecodeFromBytes(g.data, gopacket.NilDecodeFeedback)
	if err == nil && g.captured < len(d.e.Contents) {
		d.e.Body = nil // it was cut
	}
	return err
}

// reason says in words why a packet is malformed.
func reason(err error) string {
	text := strings.TrimPrefix(err.Error(), "wire: ")
	if errors.Is(err, wire.ErrSize) {
		text += " (a GSO train, captured as one packet, looks like that)"
	}
	return text
}

// print writes the line in the form that was asked for.
func (d *decoder) print(l *line) {
	if !d.JSON {
		_, _ = fmt.Fprintln(d.out, l.text()) // errors come out of Flush
		return
	}
	b, _ := json.Marshal(l) // strings, numbers, and maps of them
	sep := ",\n"
	if d.printed == 0 {
		sep = "\n"
	}
	d.printed++
	_, _ = d.out.WriteString(sep)
	_, _ = d.out.Write(b)
}

// finish prints the summary; why is the error that ended the decoding too early, or nil.
func (d *decoder) finish(file *captureFile, why error) error {
	s := &d.sum
	s.Packets = file.frames
	s.Duration = d.last.Sub(d.first).Seconds()
	if d.JSON {
		if why != nil {
			s.Error = cli.OneLine(why)
		}
		b, err := json.Marshal(s)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(d.out, "],\n%s\n", b[1:]) // the fields, without the brace that opens them
		return d.out.Flush()
	}
	var types []string
	for t := wire.TypeReq; t <= wire.TypeSealed; t++ {
		if n := s.Types[t.String()]; n > 0 || t <= wire.TypeMgmt { // the paper's always
			types = append(types, fmt.Sprintf("%d %v", n, t))
		}
	}
	if n := s.Types[typeVersion]; n > 0 {
		types = append(types, fmt.Sprintf("%d %s", n, typeVersion))
	}
	_, _ = fmt.Fprintf(d.out, "--- %s: %d packets, %d eRPC (%s), %d malformed, %d other, %.6f s\n",
		d.File, s.Packets, s.Erpc, strings.Join(types, ", "), s.Malformed, s.Other, s.Duration)
	if s.Erpc+s.Malformed == 0 && s.Packets > 0 && d.Port == 0 {
		_, _ = fmt.Fprintln(d.out, "no packet looks like eRPC; if one should, name its port with --port")
	}
	return d.out.Flush()
}

func quoteJSON(s string) []byte {
	b, _ := json.Marshal(s) // a string
	return b
}
