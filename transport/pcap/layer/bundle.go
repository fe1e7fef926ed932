package layer

import (
	"encoding/binary"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/userspace-rpc/erpc/wire"
)

// BundleType is the registered type of the layer of a bundle.
var BundleType = gopacket.RegisterLayerType(bundleNumber,
	gopacket.LayerTypeMetadata{Name: "eRPC bundle", Decoder: gopacket.DecodeFunc(decode)})

// bundleNumber is among those that gopacket leaves to applications.
const bundleNumber = layerNumber + 1

// Bundle is a datagram with several packets.
//
// Contents is its header with all records, Payload the padding. Both alias the bytes that were
// decoded.
type Bundle struct {
	layers.BaseLayer
	// The header claims that Count packets follow, and Content bytes of records.
	Count, Content int
	// Session and Token are those of the first packet, as they stand in the bundle's header. In
	// sessions with checksums Token holds the checksum too, see Opened.
	Session, Token uint32
	// Packets are those inside, in their order. SerializeTo reads nothing else.
	Packets []ERPC
}

var (
	_ gopacket.DecodingLayer     = (*Bundle)(nil)
	_ gopacket.SerializableLayer = (*Bundle)(nil)
	_ gopacket.Layer             = (*Bundle)(nil)
)

// LayerType returns BundleType.
func (b *Bundle) LayerType() gopacket.LayerType { return bundleNumber }

// CanDecode implements gopacket.DecodingLayer.
func (b *Bundle) CanDecode() gopacket.LayerClass { return b.LayerType() }

// NextLayerType implements gopacket.DecodingLayer: nothing but padding follows.
func (b *Bundle) NextLayerType() gopacket.LayerType { return gopacket.LayerTypeZero }

// DecodeFromBytes reads one bundle, which is all of data. It allocates if Packets has no room for
// them. The error is one of package wire's; b holds no promise then.
func (b *Bundle) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	return b.DecodeCut(data, len(data), df)
}

// DecodeCut is DecodeFromBytes for a bundle of size bytes of which a capture kept no more than
// data. Packets are those that are there from end to end.
func (b *Bundle) DecodeCut(data []byte, size int, df gopacket.DecodeFeedback) error {
	if len(data) < wire.BundleHeaderSize {
		df.SetTruncated()
	}
	var in wire.Bundle
	if err := in.ParseCut(data, size); err != nil {
		return err
	}
	b.Count, b.Content = int(data[1]), int(binary.LittleEndian.Uint16(data[2:]))
	b.Session, b.Token = binary.LittleEndian.Uint32(data[8:]), in.Token()
	b.Packets = b.Packets[:0]
	for at := in.Offset(); ; at = in.Offset() {
		e := ERPC{Bundled: true}
		payload, ok := in.Next(&e.Header)
		if !ok {
			break
		}
		e.Token = in.Token()
		record := data[at:in.Offset():in.Offset()]
		e.split(record, len(record)-len(payload))
		b.Packets = append(b.Packets, e)
	}
	end := min(len(data), wire.BundleHeaderSize+b.Content)
	b.BaseLayer = layers.BaseLayer{Contents: data[:end:end], Payload: data[end:]}
	return nil
}

// Opened returns the token of the first packet's session if that agreed on checksums; else, or if
// the bundle was damaged, a random-looking number.
func (b *Bundle) Opened() uint32 { return b.Token ^ wire.Checksum(b.Contents, b.Payload) }

// SerializeTo puts a bundle of Packets in front of what s holds, which is its padding. The body of
// each packet is its Fault, or else its Payload. With opts.FixLengths each MsgSize becomes what it
// becomes in a packet alone. With opts.ComputeChecksums the token of the first packet is its
// session's, and the bundle gets that XOR its CRC-32C. A bundle that a receiver would refuse is an
// error.
func (b *Bundle) SerializeTo(s gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	if len(b.Packets) == 0 {
		return wire.ErrBundle
	}
	pkt := make([]byte, wire.BundleHeaderSize)
	for i := range b.Packets {
		record, err := b.record(i, opts)
		if err != nil {
			return err
		}
		pkt = append(pkt, record...)
	}
	content := len(pkt) - wire.BundleHeaderSize
	if content > wire.MaxContent {
		return wire.ErrBundle
	}
	first := &b.Packets[0]
	version := first.Version
	if version == 0 {
		version = wire.Version
	}
	wire.PutBundle(pkt, version, len(b.Packets), content, first.Session, first.Token)
	if err := b.same(pkt, opts); err != nil { // that there are too many is among it
		return err
	}
	space, err := s.PrependBytes(len(pkt))
	if err != nil {
		return err
	}
	copy(space, pkt)
	if opts.ComputeChecksums {
		wire.SealMgmt(s.Bytes(), first.Token)
	}
	return nil
}

// record returns the record of a packet.
func (b *Bundle) record(i int, opts gopacket.SerializeOptions) ([]byte, error) {
	e := &b.Packets[i]
	n, err := e.bodySize()
	if err != nil {
		return nil, err
	}
	body := e.Payload
	if n > 0 && e.Type == wire.TypeErr {
		body = wire.AppendError(nil, &e.Fault)
	}
	h := e.recorded(len(body), opts)
	another := i > 0 && (h.Session != b.Packets[i-1].Session || e.Token != b.Packets[i-1].Token)
	head := make([]byte, wire.MaxRecordHead)
	head = head[:wire.PutRecord(head, &h, len(body), another, e.Token)]
	return append(head, body...), nil
}

// recorded returns the header of a packet of a bundle with so many bytes behind its head.
func (e *ERPC) recorded(size int, opts gopacket.SerializeOptions) wire.Header {
	h := e.Header
	if opts.FixLengths {
		h.MsgSize = e.fixedSize(0, size)
	}
	return h
}

// same returns an error unless pkt is a sound bundle of these packets.
func (b *Bundle) same(pkt []byte, opts gopacket.SerializeOptions) error {
	var in wire.Bundle
	if err := in.Parse(pkt); err != nil {
		return err
	}
	for i := range b.Packets {
		var got wire.Header
		payload, _ := in.Next(&got)
		want := b.Packets[i].recorded(len(payload), opts)
		if err := fits(&got, &want); err != nil {
			return err
		}
	}
	return nil
}

func decodeBundle(data []byte, p gopacket.PacketBuilder) error {
	b := new(Bundle)
	if err := b.DecodeFromBytes(data, p); err != nil {
		return err
	}
	p.AddLayer(b)
	for i := range b.Packets {
		p.AddLayer(&b.Packets[i])
	}
	return nil
}
