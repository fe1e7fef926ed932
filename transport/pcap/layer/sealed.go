package layer

import (
	"fmt"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/userspace-rpc/erpc/wire"
)

// SealedType is the registered type of the layer of a sealed datagram.
var SealedType = gopacket.RegisterLayerType(sealedNumber,
	gopacket.LayerTypeMetadata{Name: "eRPC sealed", Decoder: gopacket.DecodeFunc(decode)})

// sealedNumber is among those that gopacket leaves to applications.
const sealedNumber = layerNumber + 2

// Sealed is a sealed datagram, of which only the clear part can be read without keys. What
// security.Opener opens is a packet or a bundle, which decodes as one in the clear.
//
// Contents is the clear part, Payload what is encrypted, with the tag. Both alias the bytes that
// were decoded.
type Sealed struct {
	layers.BaseLayer
	Counter  uint64 // of its direction, 56 bits
	Index    uint32 // by which the receiver finds the association, 24 bits
	Loop     uint8  // of the receiver, 0 if it has only one
	KeyPhase bool   // the low bit of the number of the key phase
}

var (
	_ gopacket.DecodingLayer     = (*Sealed)(nil)
	_ gopacket.SerializableLayer = (*Sealed)(nil)
	_ gopacket.Layer             = (*Sealed)(nil)
)

// LayerType returns SealedType.
func (s *Sealed) LayerType() gopacket.LayerType { return sealedNumber }

// CanDecode implements gopacket.DecodingLayer.
func (s *Sealed) CanDecode() gopacket.LayerClass { return s.LayerType() }

// NextLayerType implements gopacket.DecodingLayer.
func (s *Sealed) NextLayerType() gopacket.LayerType {
	if len(s.Payload) == 0 {
		return gopacket.LayerTypeZero
	}
	return gopacket.LayerTypePayload
}

// Field returns the index and the loop as a key log has them, see security.Logged.
func (s *Sealed) Field() uint32 { return wire.FirstOf(s.Loop) | s.Index }

// DecodeFromBytes reads the clear part of one sealed datagram, which is all of data.
func (s *Sealed) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	if len(data) < wire.SealedHead {
		df.SetTruncated()
		return wire.ErrShort
	}
	if !wire.IsSealed(data) {
		return wire.ErrType
	}
	field := wire.SealedField(data)
	s.Counter, s.KeyPhase = wire.SealedCounter(data), data[11]>>7 != 0
	s.Index, s.Loop = field&wire.NoSession, wire.LoopOf(field)
	s.BaseLayer = layers.BaseLayer{Contents: data[:wire.SealedHead:wire.SealedHead],
		Payload: data[wire.SealedHead:]}
	return nil
}

// SerializeTo puts the clear part in front of what b holds.
func (s *Sealed) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	field := s.Field()
	if s.KeyPhase {
		field |= wire.KeyPhase
	}
	space, err := b.PrependBytes(wire.SealedHead)
	if err != nil {
		return err
	}
	copy(space, wire.AppendSealed(nil, s.Counter, field))
	var again Sealed
	if err := again.DecodeFromBytes(space, gopacket.NilDecodeFeedback); err != nil {
		return err
	}
	if again.Counter != s.Counter || again.Index != s.Index || again.Loop != s.Loop {
		return fmt.Errorf("layer: a field does not fit its place: counter %d, index %d, loop %d",
			s.Counter, s.Index, s.Loop)
	}
	return nil
}

func decodeSealed(data []byte, p gopacket.PacketBuilder) error {
	s := new(Sealed)
	if err := s.DecodeFromBytes(data, p); err != nil {
		return err
	}
	p.AddLayer(s)
	return p.NextDecoder(s.NextLayerType())
}
