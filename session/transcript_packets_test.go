package session

import (
	"fmt"
	"strconv"

	"github.com/userspace-rpc/erpc/wire"
)

// inject delivers a packet made from its arguments.
func (s *script) inject(toServer bool, a args) {
	types := map[string]wire.Type{"REQ": wire.TypeReq, "RFR": wire.TypeRFR, "CR": wire.TypeCR,
		"RESP": wire.TypeResp, "ERR": wire.TypeErr, "WAIT": wire.TypeWait, "PAST": wire.TypePast,
		"CANCEL": wire.TypeCancel, "ACK": wire.TypeAck}
	h := wire.Header{Type: types[a["1"]], ReqType: uint8(a.num("type", 1)),
		ReqNum: uint64(a.num("req", 8)), PktNum: uint32(a.num("pkt", 0)), MsgSize: uint32(a.num("of", 0)),
		Hold: uint16(a.num("hold", 0)), Flags: wire.Flags(a.num("flags", 0))}
	token := uint32(clientToken)
	h.Session = clientSession
	if toServer {
		h.Session, token = serverSession, serverToken
	}
	h.Session = uint32(a.num("session", int(h.Session)))
	raw := make([]byte, wire.HeaderSize+a.num("len", 0))
	if h.Type == wire.TypeErr {
		raw = append(raw[:wire.HeaderSize],
			wire.AppendError(nil, fault(wire.Code(a.num("code", 5)), ""))...)
		raw = append(raw, make([]byte, a.num("len", 0))...)
		h.MsgSize = uint32(a.num("of", len(raw)-wire.HeaderSize))
	}
	h.Put(raw, token^uint32(a.num("badtoken", 0)))
	if s.params.Checksum {
		wire.SetToken(raw, wire.Token(raw)^wire.Checksum(raw, nil))
	}
	if i, ok := a["flip"]; ok {
		n, _ := strconv.Atoi(i)
		raw[n] ^= 1
	}
	s.deliver(toServer, dgram{raw: raw})
}

// awaits prints whether the client knows a packet that it has sent, and what is like it.
func (s *script) awaits(p dgram) {
	line := fmt.Sprintf("req=%d pkt=%d known:", p.header().ReqNum, p.header().PktNum)
	try := func(name string, raw []byte) {
		var h wire.Header
		if err := h.Parse(raw[:wire.HeaderSize]); err != nil {
			s.tb.Fatal(err)
		}
		if s.cl.Awaits(&h, raw) {
			line += " " + name
		}
	}
	try("whole", p.raw)
	try("behind", append(p.raw[:len(p.raw):len(p.raw)], "of the next packet"...))
	try("head", p.raw[:wire.HeaderSize])
	for _, c := range []struct {
		name   string
		change func(h *wire.Header)
	}{
		{"version", func(h *wire.Header) { h.Version = wire.OldVersion }},
		{"type", func(h *wire.Header) { h.Type = wire.TypeResp }},
		{"session", func(h *wire.Header) { h.Session ^= 1 }},
		{"slot", func(h *wire.Header) { h.ReqNum ^= 1 }},
		{"number", func(h *wire.Header) { h.ReqNum += uint64(s.params.Slots) }},
		{"unsent", func(h *wire.Header) { h.PktNum += 100 }},
		{"token", func(*wire.Header) {}},
	} {
		raw, h, token := append([]byte(nil), p.raw...), p.header(), uint32(serverToken)
		if c.change(&h); c.name == "token" {
			token ^= 1
		}
		if h.Put(raw, token); s.params.Checksum {
			wire.SetToken(raw, token^wire.Checksum(raw, nil))
		}
		try(c.name, raw)
	}
	s.print("%s", line)
}

// deliver hands a packet over and prints what it led to, before what was sent.
func (s *script) deliver(toServer bool, p dgram) {
	ev := Event{}
	mark := len(s.lines)
	if toServer {
		ev = s.toServer(p)
	} else {
		ev = s.toClient(p)
	}
	line := ""
	switch ev.Kind {
	case EventRequest:
		typ, num, data := s.sv.Request(ev.Slot)
		line = fmt.Sprintf("request slot=%d type=%d req=%d size=%d", ev.Slot, typ, num, len(data))
	case EventCancelled:
		line = fmt.Sprintf("cancelled slot=%d", ev.Slot)
	case EventLate:
		line = "late"
	case EventProgress:
		line = fmt.Sprintf("progress ref=%d", ev.Ref)
	case EventFailed:
		line = fmt.Sprintf("done ref=%d here: %v", ev.Ref, ev.Err)
		s.giveUp(ev.Ref)
	case EventDone:
		op := s.ops[ev.Ref]
		line = fmt.Sprintf("done ref=%d size=%d", ev.Ref, op.Resp.Size())
		if h := p.header(); checkFill(op.Resp.Bytes(), byte(h.ReqNum)) != nil || ev.Resp != op.Resp {
			line += " CONTENTS DIFFER"
		}
		s.giveUp(ev.Ref)
	case EventError:
		line = fmt.Sprintf("done ref=%d code=%q text=%q", ev.Ref, ev.Fault.Code, ev.Fault.Text)
		s.giveUp(ev.Ref)
	}
	if ev.RTT != 0 && (ev.Kind == EventProgress || ev.Kind == EventDone) {
		line += fmt.Sprintf(" rtt=%v", ev.RTT)
	}
	if s.broken != nil {
		s.print("broken: %v", s.broken)
		s.broken = nil
	}
	if line != "" {
		s.lines = append(s.lines[:mark], append([]string{line}, s.lines[mark:]...)...)
	}
}
