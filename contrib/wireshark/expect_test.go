package wireshark

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gopacket/gopacket"

	"github.com/userspace-rpc/erpc/transport/pcap/layer"
	"github.com/userspace-rpc/erpc/wire"
)

// typeOf returns the request type of a packet, if it is known.
type typeOf func(e *layer.ERPC) (reqType uint8, ok bool)

// unlearned knows what packets say themselves.
func unlearned(e *layer.ERPC) (reqType uint8, ok bool) { return e.ReqType, e.SaysType() }

// expect returns what the dissector is to show of a packet, according to package wire.
func expect(pkt []byte, types typeOf) map[string]string {
	if wire.IsBundle(pkt) {
		return expectBundle(pkt, len(pkt), types)
	}
	want := map[string]string{}
	set := func(name, format string, v any) {
		text := fmt.Sprintf(format, v)
		if old := want["erpc."+name]; strings.HasPrefix(name, "hole.") && old != "" {
			text = old + "," + text
		}
		want["erpc."+name] = text
	}
	if wire.IsSealed(pkt) {
		expectSealed(set, pkt)
		return want
	}
	e := new(layer.ERPC)
	err := e.DecodeFromBytes(pkt, gopacket.NilDecodeFeedback)
	if r := new(wire.VersionRefusal); r.Parse(pkt) {
		set("nonce", "0x%016x", r.Nonce)
		set("version_asked", "%d", r.Asked)
		set("version_least", "%d", r.Least)
		set("version_most", "%d", r.Most)
		e.Type, e.Session, e.Token = wire.TypeMgmt, wire.NoSession, wire.Token(pkt)
		expectFirst(set, pkt)
		expectHeader(set, e)
		set("op", "%d", 0)
		return want
	}
	if err != nil {
		set("malformed", "%s", strings.TrimPrefix(err.Error(), "wire: "))
		return want
	}
	expectFirst(set, pkt)
	e.Session, _ = wire.SessionOf(pkt) // without a session Parse skips the rest of the field
	expectHeader(set, e)
	if e.Type == wire.TypeMgmt {
		types(e)
		set("op", "%d", e.ReqType)
		set("padding_len", "%d", len(e.Payload))
		expectBody(set, e.Body)
		if op := e.Op(); op == wire.OpConnect || op == wire.OpOpen || op == wire.OpAccept {
			expectExtensions(want, e.Extensions)
		}
		if op := e.Op(); (op == wire.OpDisconnect || op == wire.OpDrain) &&
			wire.CheckExtensions(e.Extensions) == nil {
			expectExtensions(want, e.Extensions)
		}
		return want
	}
	expectPacket(set, e, types)
	return want
}

// expectSealed sets what the dissector is to show of a sealed packet that it does not open.
func expectSealed(set func(name, format string, v any), pkt []byte) {
	expectFirst(set, pkt)
	set("type", "%d", uint8(wire.TypeSealed))
	expectClear(set, pkt)
	if len(pkt) > wire.SealedHead {
		set("sealed.data", "%x", pkt[wire.SealedHead:])
	}
}

// expectClear sets what a sealed packet says in the clear.
func expectClear(set func(name, format string, v any), pkt []byte) {
	s := new(layer.Sealed)
	if err := s.DecodeFromBytes(pkt, gopacket.NilDecodeFeedback); err != nil {
		panic(err)
	}
	set("sealed.counter", "%d", s.Counter)
	set("sealed.index", "0x%08x", s.Index)
	set("sealed.loop", "%d", s.Loop)
	set("sealed.phase", "%t", s.KeyPhase)
}

// expectBundle returns what the dissector is to show of a bundle of size bytes, of which pkt was
// captured: the fields of its header, and then those of each packet inside, with commas between.
func expectBundle(pkt []byte, size int, types typeOf) map[string]string {
	want := map[string]string{}
	set := func(name, format string, v any) {
		if text := fmt.Sprintf(format, v); text != "" {
			want["erpc."+name] = strings.TrimPrefix(want["erpc."+name]+","+text, ",")
		}
	}
	b := new(layer.Bundle)
	if err := b.DecodeCut(pkt, size, gopacket.NilDecodeFeedback); err != nil {
		set("malformed", "%s", strings.TrimPrefix(err.Error(), "wire: "))
		return want
	}
	expectFirst(set, pkt)
	set("type", "%d", uint8(wire.TypeBundle))
	set("bundle.count", "%d", b.Count)
	set("bundle.content", "%d", b.Content)
	expectSession(set, b.Session)
	set("token", "0x%08x", b.Token)
	for i := range b.Packets {
		e := &b.Packets[i]
		set("bundle.another", "%t", e.Contents[0]&0x10 != 0)
		set("bundle.whole", "%t", e.Contents[0]&0x20 != 0)
		expectHeader(set, e)
		expectPacket(set, e, types)
	}
	set("padding_len", "%d", size-wire.BundleHeaderSize-b.Content)
	return want
}

// expectPacket sets what a packet other than management has beside its header.
func expectPacket(set func(name, format string, v any), e *layer.ERPC, types typeOf) {
	if typ, ok := types(e); ok {
		set("reqtype", "%d", typ)
	}
	if !e.SaysType() {
		set("host_delay", "0x%02x", e.ReqType)
		if d, said := e.HostDelay(); said {
			set("host_delay_ns", "%d", d.Nanoseconds())
		}
	}
	if holes, ok := e.Holes(); ok {
		for i := range holes.Len() {
			first, n := holes.At(i)
			set("hole.first", "%d", first)
			set("hole.count", "%d", n)
		}
	}
	if left, ok := e.Remaining(); ok {
		set("left_ns", "%d", left.Nanoseconds())
	}
	if e.Type == wire.TypeErr {
		set("data_len", "%d", e.MsgSize)
		all := append(slices.Clone(e.Contents), e.Payload...)
		expectFault(set, all[len(all)-int(e.MsgSize):])
		return
	}
	set("data_len", "%d", len(e.Payload))
	if len(e.Payload) > 0 {
		set("data", "%x", e.Payload)
	}
}

// expectFirst sets what a packet alone and the header of a bundle have.
func expectFirst(set func(name, format string, v any), pkt []byte) {
	set("version", "%d", pkt[0]>>4)
}

// expectSession sets the parts of a session field.
func expectSession(set func(name, format string, v any), field uint32) {
	set("session", "%d", field&wire.NoSession)
	set("loop", "%d", wire.LoopOf(field))
	set("phase", "%t", field&wire.KeyPhase != 0)
}

// expectFrom sets the sender's session in a body.
func expectFrom(set func(name, format string, v any), field uint32) {
	set("from_session", "%d", field&wire.NoSession)
	set("from_loop", "%d", wire.LoopOf(field))
}

func expectHeader(set func(name, format string, v any), e *layer.ERPC) {
	set("type", "%d", uint8(e.Type))
	set("hold", "0x%04x", e.Hold)
	set("size", "%d", e.MsgSize)
	set("flags", "0x%02x", uint8(e.Flags))
	set("flags.ce", "%t", e.Flags&wire.FlagCE != 0)
	switch e.Type {
	case wire.TypeReq:
		set("flags.quiet", "%t", e.Flags&wire.FlagQuiet != 0)
	case wire.TypeCR:
		set("flags.gap", "%t", e.Flags&wire.FlagGap != 0)
	case wire.TypeResp, wire.TypeErr:
		set("flags.late", "%t", e.Flags&wire.FlagLate != 0)
	case wire.TypeWait:
		set("flags.keep", "%t", e.Flags&wire.FlagKeep != 0)
	}
	set("flags.cut", "%d", e.Flags.Cut())
	expectSession(set, e.Session)
	set("token", "0x%08x", e.Token)
	set("reqnum", "%d", e.ReqNum)
	set("pktnum", "%d", e.PktNum)
	if try, ok := e.Try(); ok {
		set("try", "%d", try)
	}
	if d, ok := e.HoldTime(); ok {
		set("hold_ns", "%d", d.Nanoseconds())
	}
}

func expectFault(set func(name, format string, v any), body []byte) {
	f, err := wire.ParseError(body)
	if err != nil {
		set("error_malformed", "%s", strings.TrimPrefix(err.Error(), "wire: "))
		set("data", "%x", body)
		return
	}
	set("error_status", "%d", uint8(f.Status))
	set("error_code", "%d", uint8(f.Code))
	set("error_ran", "%t", f.Ran)
	set("error_text", "%s", f.Text)
	set("error_details", "%x", f.Details)
}

func expectExtensions(want map[string]string, b []byte) {
	var types, values []string
	for len(b) > 0 {
		x, rest, err := wire.NextExtension(b)
		if err != nil {
			panic(err) // the layer has checked them
		}
		types = append(types, strconv.Itoa(int(x.Type)))
		if len(x.Value) > 0 {
			values = append(values, hex.EncodeToString(x.Value))
		}
		b = rest
	}
	want["erpc.ext.type"], want["erpc.ext.value"] = strings.Join(types, ","), strings.Join(values, ",")
}

func expectBody(set func(name, format string, v any), body layer.Body) {
	offer := func(o wire.Offer) {
		set("credits", "%d", o.Credits)
		set("slots", "%d", o.Slots)
		set("mtu", "%d", o.MTU)
		set("max_message", "%d", o.MaxMessage)
		set("waiting", "%d", o.Waiting)
		set("checksum", "%t", o.Features&wire.FeatureChecksum != 0)
		set("bundles", "%t", o.Features&wire.FeatureBundle != 0)
		set("features", "0x%08x", uint32(o.Features))
	}
	switch b := body.(type) {
	case *wire.Connect:
		set("nonce", "0x%016x", b.Nonce)
		set("epoch", "0x%016x", b.Epoch)
		expectFrom(set, b.Session)
		set("from_token", "0x%08x", b.Token)
		offer(b.Offer)
		set("cookie", "%x", b.Cookie)
	case *wire.Challenge:
		set("nonce", "0x%016x", b.Nonce)
		set("cookie", "%x", b.Cookie)
	case *wire.Accept:
		set("nonce", "0x%016x", b.Nonce)
		set("epoch", "0x%016x", b.Epoch)
		expectFrom(set, b.Session)
		set("from_token", "0x%08x", b.Token)
		offer(b.Offer)
	case *wire.Refuse:
		set("nonce", "0x%016x", b.Nonce)
		set("code", "%d", uint8(b.Code))
	case *wire.Crypto:
		set("nonce", "0x%016x", b.Nonce)
		set("offset", "%d", b.Offset)
		set("ack", "%d", b.Ack)
	case *wire.NoKeys:
		set("quote", "%x", b.Quote)
	case *wire.Alive:
		expectFrom(set, b.Session)
		set("from_token", "0x%08x", b.Token)
		set("seq", "0x%016x", b.Seq)
		set("to_token", "0x%08x", b.To)
	}
}
