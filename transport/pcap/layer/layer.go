package layer

import (
	"fmt"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/userspace-rpc/erpc/wire"
)

// DefaultPort is the UDP port of "erpc server".
const DefaultPort = 31850

// layerNumber is among those that gopacket leaves to applications.
const layerNumber = 1850

// LayerType is the registered type of the eRPC layer.
var LayerType = gopacket.RegisterLayerType(layerNumber,
	gopacket.LayerTypeMetadata{Name: "eRPC", Decoder: gopacket.DecodeFunc(decode)})

func init() { RegisterPort(DefaultPort) }

// RegisterPort makes gopacket decode UDP packets to or from port as eRPC. As gopacket's
// own tables it is for the start of a program, not for concurrent use.
func RegisterPort(port uint16) { layers.RegisterUDPPortLayerType(layers.UDPPort(port), LayerType) }

// Body is the body of a management packet: *wire.Connect, *wire.Challenge, *wire.Accept,
// *wire.Refuse, *wire.Crypto, *wire.NoKeys or *wire.Alive. An Open has a *wire.Connect.
type Body interface {
	Put(b []byte)
	Parse(b []byte)
}

// ERPC is the header of one packet, and the body of a management packet or of an ERR.
//
// Contents is the header with the body, Payload what follows: message data, the padding
// of a management packet, or an ERR's body that wire.ParseError refuses. Both alias the bytes
// that were decoded.
type ERPC struct {
	layers.BaseLayer
	wire.Header
	// Token as it stands in the packet. In management packets and sessions with checksums
	// it holds the checksum too, see Opened. In a bundle it is the session's that the last record
	// with a token named, or what stands in the bundle's header.
	Token uint32
	// Body is nil unless Type is wire.TypeMgmt.
	Body Body
	// Extensions follow the least body of a management packet, up to MsgSize; see
	// wire.NextExtension. They alias the bytes that were decoded.
	Extensions []byte
	// Bundled says that the packet is one of a bundle. Contents and Payload are its record then.
	Bundled bool
	// Fault is the body of an ERR. Its Status is wire.StatusOK in packets of other types, and if
	// wire.ParseError refuses the body: the packet is a sound one all the same, since only its
	// receiver reads the body. Text and Details alias the bytes that were decoded.
	Fault wire.Error
}

var (
	_ gopacket.DecodingLayer     = (*ERPC)(nil)
	_ gopacket.SerializableLayer = (*ERPC)(nil)
	_ gopacket.Layer             = (*ERPC)(nil)
)

// LayerType returns the variable of that name.
func (e *ERPC) LayerType() gopacket.LayerType { return layerNumber }

// CanDecode implements gopacket.DecodingLayer.
func (e *ERPC) CanDecode() gopacket.LayerClass { return e.LayerType() }

// NextLayerType implements gopacket.DecodingLayer.
func (e *ERPC) NextLayerType() gopacket.LayerType {
	if len(e.Payload) == 0 {
		return gopacket.LayerTypeZero
	}
	return gopacket.LayerTypePayload
}

// Loop returns the loop of the receiver that the packet is for, 0 if it says none. Session has it
// too, in its upper bits, but without a session.
func (e *ERPC) Loop() uint8 {
	if e.Session == wire.NoSession && !e.Bundled && len(e.Contents) >= wire.HeaderSize {
		field, _ := wire.SessionOf(e.Contents)
		return wire.LoopOf(field)
	}
	return wire.LoopOf(e.Session)
}

// Holes returns the packets that the server of a CR misses; ok is false if the packet names none,
// or none that can be.
func (e *ERPC) Holes() (h wire.Holes, ok bool) {
	if e.Type != wire.TypeCR {
		return nil, false
	}
	h, err := wire.ParseHoles(e.Payload)
	return h, err == nil
}

// Op returns the operation of a management packet.
func (e *ERPC) Op() wire.Op { return wire.Op(e.ReqType) }

// DecodeFromBytes reads one packet, which is all of data, no bundle and not sealed. It allocates
// for management packets only. The error is one of package wire's; e holds no promise then.
func (e *ERPC) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	if len(data) < wire.HeaderSize {
		df.SetTruncated()
		return wire.ErrShort
	}
	if err := e.Header.Parse(data); err != nil {
		return err
	}
	size := wire.HeaderSize
	e.Token, e.Body, e.Extensions, e.Bundled = wire.Token(data), nil, nil, false
	if e.Type == wire.TypeMgmt {
		e.Body = newBody(e.Op())
		e.Body.Parse(data[size:])
		least, _ := bodyOf(e.Op(), e.Body)
		e.Extensions = data[size+least : size+int(e.MsgSize)]
		if op := e.Op(); op == wire.OpConnect || op == wire.OpOpen || op == wire.OpAccept {
			if err := wire.CheckExtensions(e.Extensions); err != nil {
				return err
			}
		}
		size += int(e.MsgSize)
	}
	e.split(data, size)
	return nil
}

// split divides the bytes of a packet into Contents, of at least size bytes, and Payload. It reads
// the body of an ERR.
func (e *ERPC) split(data []byte, size int) {
	e.Fault = wire.Error{}
	if e.Type == wire.TypeErr {
		if fault, err := wire.ParseError(data[size:]); err == nil {
			e.Fault, size = fault, len(data)
		}
	}
	e.BaseLayer = layers.BaseLayer{Contents: data[:size:size], Payload: data[size:]}
}

// newBody returns an empty body for an operation that wire's Parse accepted.
func newBody(op wire.Op) Body {
	switch op {
	case wire.OpConnect, wire.OpOpen:
		return new(wire.Connect)
	case wire.OpChallenge:
		return new(wire.Challenge)
	case wire.OpAccept:
		return new(wire.Accept)
	case wire.OpRefuse:
		return new(wire.Refuse)
	case wire.OpCrypto:
		return new(wire.Crypto)
	case wire.OpNoKeys:
		return new(wire.NoKeys)
	}
	return new(wire.Alive)
}

// bodyOf returns the size of a body in bytes, and whether it belongs to op.
func bodyOf(op wire.Op, body Body) (size int, ok bool) {
	switch body.(type) {
	case *wire.Connect:
		return wire.ConnectSize, op == wire.OpConnect || op == wire.OpOpen
	case *wire.Challenge:
		return wire.ChallengeSize, op == wire.OpChallenge
	case *wire.Accept:
		return wire.AcceptSize, op == wire.OpAccept
	case *wire.Refuse:
		return wire.RefuseSize, op == wire.OpRefuse
	case *wire.Crypto:
		return wire.CryptoSize, op == wire.OpCrypto
	case *wire.NoKeys:
		return wire.NoKeysSize, op == wire.OpNoKeys
	case *wire.Alive:
		return wire.AliveSize, op >= wire.OpDisconnect && op <= wire.OpDrainAck
	}
	return 0, false
}

// Opened returns the token that the sender of a management packet meant, or of a packet in
// a session with checksums; a random-looking number if the packet was damaged or has no checksum.
// A packet of a bundle has none of its own: Opened returns Token.
func (e *ERPC) Opened() uint32 {
	if e.Bundled {
		return e.Token
	}
	return e.Token ^ wire.Checksum(e.Contents, e.Payload)
}

// SerializeTo puts the header, and the body of a management packet or of an ERR, in front of what b
// holds. That is a packet alone, also if e is Bundled. An ERR without a Fault has its body in b.
// With opts.FixLengths, MsgSize becomes the size of the body in a management packet, the size of
// everything behind the header in an ERR, a WAIT, a PAST, a CANCEL, an ACK and a CR with holes, and
// in others at least the payload's. With opts.ComputeChecksums, Token is the session's token and
// the packet gets Token XOR its CRC-32C, as management packets and sessions with checksums have it;
// else it gets Token as it is. A body that does not belong to the operation or the type is an
// error, as is a packet or a Fault that a receiver would refuse.
func (e *ERPC) SerializeTo(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	h, payload := e.Header, len(b.Bytes())
	n, err := e.bodySize()
	if err != nil {
		return err
	}
	size := wire.HeaderSize + n
	if opts.FixLengths {
		h.MsgSize = e.fixedSize(n, payload)
	}
	if _, err := b.PrependBytes(size); err != nil {
		return err
	}
	pkt := b.Bytes()
	h.Put(pkt, e.Token)
	if e.Body != nil {
		e.Body.Put(pkt[wire.HeaderSize:size])
		copy(pkt[size-len(e.Extensions):size], e.Extensions)
	} else if n > 0 {
		wire.AppendError(pkt[:wire.HeaderSize], &e.Fault)
	}
	if opts.ComputeChecksums {
		wire.SealMgmt(pkt, e.Token)
	}
	var again wire.Header
	if err := again.Parse(pkt); err != nil {
		return err
	}
	return fits(&again, &h)
}

// fits returns an error unless the header that was read is the one that was written.
func fits(got, want *wire.Header) error {
	w := *want
	if w.Version == 0 {
		w.Version = got.Version // the newest: a packet alone says so, a bundle for all
	}
	if *got != w {
		return fmt.Errorf("layer: a field does not fit its place: %+v", *want)
	}
	return nil
}

// fixedSize returns what MsgSize becomes with opts.FixLengths, by the bytes of the body and of what
// is behind it.
func (e *ERPC) fixedSize(body, payload int) uint32 {
	switch e.Type {
	case wire.TypeMgmt:
		return uint32(body)
	case wire.TypeErr, wire.TypeWait, wire.TypePast, wire.TypeCancel, wire.TypeAck:
		return uint32(body + payload)
	case wire.TypeCR:
		if payload > 0 {
			return uint32(payload)
		}
	}
	return max(e.MsgSize, uint32(payload))
}

// bodySize returns how many bytes Body and Extensions, or Fault, take.
func (e *ERPC) bodySize() (int, error) {
	if e.Type == wire.TypeMgmt {
		n, ok := bodyOf(e.Op(), e.Body)
		if !ok {
			return 0, fmt.Errorf("layer: body %T does not belong to operation %v", e.Body, e.Op())
		}
		return n + len(e.Extensions), nil
	}
	if e.Body != nil || e.Type != wire.TypeErr && e.Fault.Status != wire.StatusOK {
		return 0, fmt.Errorf("layer: a %v has no such body", e.Type)
	}
	if e.Fault.Status == wire.StatusOK {
		return 0, nil
	}
	b := wire.AppendError(nil, &e.Fault)
	if len(e.Fault.Text) > wire.MaxErrorText || len(e.Fault.Details) > wire.MaxErrorDetails {
		return 0, wire.ErrSize // AppendError has cut it
	}
	_, err := wire.ParseError(b)
	return len(b), err
}

func decode(data []byte, p gopacket.PacketBuilder) error {
	if wire.IsBundle(data) {
		return decodeBundle(data, p)
	}
	if wire.IsSealed(data) {
		return decodeSealed(data, p)
	}
	e := new(ERPC)
	if err := e.DecodeFromBytes(data, p); err != nil {
		return err
	}
	p.AddLayer(e)
	return p.NextDecoder(e.NextLayerType())
}
