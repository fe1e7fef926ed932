// Package layer teaches gopacket the eRPC header: it decodes and builds packets of this
// project in captures, with all fields of package wire.
//
// Importing the package registers [LayerType] and the port [DefaultPort], so that
//
//	p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
//	if l, ok := p.Layer(layer.LayerType).(*layer.ERPC); ok { ... }
//
// finds eRPC headers in UDP packets to and from that port. [RegisterPort] adds others;
// a payload from anywhere else decodes with [ERPC.DecodeFromBytes]. A bundle becomes a layer
// [Bundle], and each packet inside a layer ERPC of its own, in their order. A sealed datagram
// becomes a layer [Sealed], with what it says in the clear. A packet that wire's Parse or
// CheckExtensions refuses becomes gopacket's DecodeFailure layer, with wire's error. An ERR whose
// body is broken is a layer without a [ERPC.Fault].
//
// # Map
//
//	owns       the eRPC layers of gopacket
//	called by  erpc decode, and programs that read captures
//	never      a malformed packet makes it panic
package layer
