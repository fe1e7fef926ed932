package main

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/transport/pcap/layer"
	"github.com/userspace-rpc/erpc/wire"
)

// line is printed by decode for one packet.
type line struct {
	Time      string         `json:"time"`
	Src       string         `json:"src"`
	Dst       string         `json:"dst"`
	Type      string         `json:"type"`
	Inside    int            `json:"inside,omitempty"`   // which packet of the bundle before, from 1
	Bytes     int            `json:"bytes"`              // of the packet, header included
	Captured  *int           `json:"captured,omitempty"` // of these, if not all
	Malformed string         `json:"malformed,omitempty"`
	Sealed    *sealedLine    `json:"sealed,omitempty"` // of a packet that a key log opened
	Header    *lineHeader    `json:"header,omitempty"`
	Op        string         `json:"op,omitempty"`
	Body      map[string]any `json:"body,omitempty"` // of a MGMT or an ERR; a bundle's header

	details []string // Body as text, in order
}

// lineHeader is the header of a sound packet.
type lineHeader struct {
	Version uint8   `json:"version"`
	Session *uint32 `json:"session"` // null: none
	Loop    uint8   `json:"loop,omitempty"`
	Req     uint64  `json:"req"`
	Pkt     uint32  `json:"pkt"`
	Size    uint32  `json:"size"` // of the message
	Data    int     `json:"data"` // of it in this packet, or padding
	// Absent in an answer whose request was not seen; of management the operation.
	ReqType *uint8   `json:"reqtype,omitempty"`
	Flags   []string `json:"flags"`
	Token   string   `json:"token"`
	Field   uint16   `json:"hold_field"`
	Try     *int     `json:"try,omitempty"`
	HoldNS  *int64   `json:"hold_ns,omitempty"`
	// "long" or "unclear" if there should be a time and is none; "busy" in a PAST whose slot is
	Hold   string `json:"hold,omitempty"`
	LeftNS *int64 `json:"left_ns,omitempty"` // until the client gives the request up
	// how long the packet that is answered was in the server's host
	DelayNS *int64 `json:"delay_ns,omitempty"`
}

// fill takes the fields of a sound packet, and its request type, if that is not nil; whole says
// that nothing of the packet was cut off.
func (l *line) fill(e *layer.ERPC, reqType *uint8, whole bool) {
	l.Type = e.Type.String()
	h := &lineHeader{
		Version: e.Version, Req: e.ReqNum, Pkt: e.PktNum, Size: e.MsgSize, Data: len(e.Payload),
		ReqType: reqType,
		Flags:   e.FlagNames(), Token: fmt.Sprintf("%08x", e.Token), Field: e.Hold,
	}
	if e.Type == wire.TypeErr {
		h.Data = int(e.MsgSize) // which is in Contents if it is sound
	}
	l.Header = h
	if h.Loop = e.Loop(); e.Session != wire.NoSession {
		session := e.Session & wire.NoSession
		h.Session = &session
	}
	if try, ok := e.Try(); ok {
		h.Try = &try
	}
	d, known := e.HoldTime()
	switch kind := e.HoldKind(); {
	case known:
		ns := d.Nanoseconds()
		h.HoldNS = &ns
	case kind == layer.HoldFine || kind == layer.HoldCoarse:
		h.Hold = "long"
	case e.Type == wire.TypePast && wire.SlotBusy(e.Hold):
		h.Hold = "busy"
	case kind == layer.HoldUnclear:
		h.Hold = "unclear"
	}
	if left, ok := e.Remaining(); ok {
		ns := left.Nanoseconds()
		h.LeftNS = &ns
	}
	if delay, said := e.HostDelay(); said {
		ns := delay.Nanoseconds()
		h.DelayNS = &ns
	}
	l.holes(e)
	if e.Type == wire.TypeErr && whole {
		l.fault(&e.Fault)
	}
	if e.Type == wire.TypeMgmt {
		l.Op = e.Op().String()
		h.ReqType = &e.ReqType
	}
	if e.Body != nil {
		l.body(e)
	}
}

// detail adds one field of a body.
func (l *line) detail(name string, value any) {
	l.Body[name] = value
	l.details = append(l.details, fmt.Sprintf("%s=%v", name, value))
}

// session adds a session, or that there is none, and its loop if it says one.
func (l *line) session(name, loop string, field uint32) {
	if field&wire.NoSession == wire.NoSession {
		l.detail(name, "none")
	} else {
		l.detail(name, field&wire.NoSession)
	}
	if n := wire.LoopOf(field); n != 0 {
		l.detail(loop, n)
	}
}

// quoted adds one field whose text has quotation marks.
func (l *line) quoted(name, value string) {
	l.Body[name] = value
	l.details = append(l.details, fmt.Sprintf("%s=%q", name, value))
}

// holes takes the list of holes of a CR, as the first and the last packet of each.
func (l *line) holes(e *layer.ERPC) {
	list, ok := e.Holes()
	if !ok {
		return
	}
	var parts []string
	for i := range list.Len() {
		first, n := list.At(i)
		parts = append(parts, fmt.Sprintf("%d-%d", first, first+n-1))
	}
	l.Body = map[string]any{}
	l.detail("holes", strings.Join(parts, ","))
}

// fault takes the fields of an ERR's body.
func (l *line) fault(f *wire.Error) {
	l.Body = map[string]any{}
	if f.Status == wire.StatusOK {
		l.detail("error", "malformed")
		return
	}
	l.detail("status", f.Status.String())
	l.quoted("code", codeName(f.Code))
	l.detail("ran", f.Ran)
	l.quoted("text", string(f.Text))
	if len(f.Details) > 0 {
		l.detail("details", fmt.Sprintf("%x", f.Details))
	}
}

// codeName names a code; one of a later version by its number too.
func codeName(c wire.Code) string {
	if c.String() == wire.Code(255).String() {
		return fmt.Sprintf("%v %d", c, uint8(c))
	}
	return c.String()
}

// body takes the fields of a management packet's body. Random numbers are in hexadecimal.
func (l *line) body(e *layer.ERPC) {
	l.Body = map[string]any{}
	hex64 := func(v uint64) string { return fmt.Sprintf("%016x", v) }
	hex32 := func(v uint32) string { return fmt.Sprintf("%08x", v) }
	offer := func(o *wire.Offer) {
		l.detail("credits", o.Credits)
		l.detail("slots", o.Slots)
		l.detail("mtu", o.MTU)
		l.detail("max_message", o.MaxMessage)
		l.detail("waiting", o.Waiting)
		l.detail("checksum", o.Features&wire.FeatureChecksum != 0)
		l.detail("bundles", o.Features&wire.FeatureBundle != 0)
		if rest := o.Features &^ (wire.FeatureChecksum | wire.FeatureBundle); rest != 0 {
			l.detail("features", hex32(uint32(rest)))
		}
	}
	switch b := e.Body.(type) {
	case *wire.Connect:
		l.detail("nonce", hex64(b.Nonce))
		l.detail("epoch", hex64(b.Epoch))
		l.session("from_session", "from_loop", b.Session)
		l.detail("from_token", hex32(b.Token))
		offer(&b.Offer)
		l.detail("cookie", fmt.Sprintf("%x", b.Cookie))
		l.extensions(e.Extensions)
	case *wire.Challenge:
		l.detail("nonce", hex64(b.Nonce))
		l.detail("cookie", fmt.Sprintf("%x", b.Cookie))
	case *wire.Accept:
		l.detail("nonce", hex64(b.Nonce))
		l.detail("epoch", hex64(b.Epoch))
		l.session("from_session", "from_loop", b.Session)
		l.detail("from_token", hex32(b.Token))
		offer(&b.Offer)
		l.extensions(e.Extensions)
	case *wire.NoKeys:
		l.detail("quote", fmt.Sprintf("%x", b.Quote))
	case *wire.Crypto:
		l.detail("nonce", hex64(b.Nonce))
		l.detail("offset", b.Offset)
		l.detail("ack", b.Ack)
	case *wire.Refuse:
		l.detail("nonce", hex64(b.Nonce))
		l.quoted("reason", codeName(b.Code))
	case *wire.Alive:
		l.session("from_session", "from_loop", b.Session)
		l.detail("from_token", hex32(b.Token))
		l.detail("seq", hex64(b.Seq))
		l.detail("to_token", hex32(b.To))
		l.taken(wire.FindTaken(e.Extensions))
	}
}

// taken takes the last request that a server has taken in each slot.
func (l *line) taken(t wire.Taken) {
	if t.Slots() == 0 {
		return
	}
	var parts []string
	for i := range t.Slots() {
		parts = append(parts, strconv.FormatUint(t.At(i), 10))
	}
	l.detail("taken", strings.Join(parts, ","))
}

// typeVersion is the type of a refusal of a version.
const typeVersion = "VERSION"

// refusal takes the refusal of a version, which has no header of this one.
func (l *line) refusal(r *wire.VersionRefusal) {
	l.Type, l.Body = typeVersion, map[string]any{}
	l.detail("nonce", fmt.Sprintf("%016x", r.Nonce))
	l.detail("asked", r.Asked)
	l.detail("least", r.Least)
	l.detail("most", r.Most)
}

// bundle takes the header of a bundle.
func (l *line) bundle(b *layer.Bundle) {
	l.Type, l.Body = wire.TypeBundle.String(), map[string]any{}
	if len(b.Packets) > 0 && b.Packets[0].Version != wire.Version {
		l.detail("version", b.Packets[0].Version)
	}
	l.detail("packets", b.Count)
	l.detail("content", b.Content)
	l.detail("padding", l.Bytes-wire.BundleHeaderSize-b.Content)
	l.session("session", "loop", b.Session)
	l.detail("token", fmt.Sprintf("%08x", b.Token))
}

// extensions takes the extensions of a Connect or an Accept.
func (l *line) extensions(b []byte) {
	for len(b) > 0 {
		x, rest, err := wire.NextExtension(b)
		if err != nil {
			l.detail("extensions", "malformed")
			return
		}
		if x.Type == wire.ExtIndex && len(x.Value) == 4 {
			l.index(binary.LittleEndian.Uint32(x.Value), "index_loop")
		} else {
			l.detail(fmt.Sprintf("extension_%d", x.Type), fmt.Sprintf("%x", x.Value))
		}
		b = rest
	}
}

// text is the line for people and grep.
func (l *line) text() string {
	parts := []string{l.Time, l.Src, ">", l.Dst, l.Type}
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if h := l.Header; h != nil {
		if l.Op != "" {
			add("%s", l.Op)
		}
		session := "none"
		if h.Session != nil {
			session = strconv.FormatUint(uint64(*h.Session), 10)
		}
		add("session=%s", session)
		if h.Loop != 0 {
			add("loop=%d", h.Loop)
		}
		add("req=%d pkt=%d size=%d data=%d", h.Req, h.Pkt, h.Size, h.Data)
		if l.Op == "" && h.ReqType != nil {
			add("reqtype=%d", *h.ReqType)
		}
		flags := strings.Join(h.Flags, ",")
		if flags == "" {
			flags = "-"
		}
		add("flags=%s", flags)
		if h.Try != nil {
			add("try=%d", *h.Try)
		}
		span := func(ns int64) string {
			return strings.Replace(time.Duration(ns).String(), "µ", "u", 1)
		}
		if h.HoldNS != nil {
			add("hold=%s", span(*h.HoldNS))
		} else if h.Hold != "" {
			add("hold=%s", h.Hold)
		}
		if h.LeftNS != nil {
			add("left=%s", span(*h.LeftNS))
		}
		if h.DelayNS != nil {
			add("delay=%s", span(*h.DelayNS))
		}
		if h.Version != wire.Version {
			add("version=%d", h.Version)
		}
		add("token=%s", h.Token)
		if l.Inside > 0 {
			add("inside=%d", l.Inside)
		}
		parts = append(parts, l.details...)
	} else if l.Malformed == "" {
		add("bytes=%d", l.Bytes)
		parts = append(parts, l.details...)
	} else {
		add("bytes=%d why=%q", l.Bytes, l.Malformed)
	}
	if l.Sealed != nil {
		add("counter=%d index=%s", l.Sealed.Counter, l.Sealed.Index)
		if l.Sealed.Loop != 0 {
			add("to_loop=%d", l.Sealed.Loop)
		}
		add("phase=%d", l.Sealed.Phase)
	}
	if l.Captured != nil {
		add("captured=%d", *l.Captured)
	}
	return strings.Join(parts, " ")
}
