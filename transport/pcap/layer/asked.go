package layer

import (
	"net/netip"

	"github.com/userspace-rpc/erpc/wire"
)

// Types tells the request types of packets. Since version 3 an answer does not say its own, so they
// are those of requests that were seen before. The zero value is ready.
type Types struct {
	now, before remembered
}

// mostRemembered bounds what is remembered: of twice as much the older half is forgotten.
const mostRemembered = 1 << 15

type remembered struct {
	asked map[typeKey]int    // request type, or mixed
	ends  map[typeKey]uint32 // by the client's session: the server's
}

// typeKey names a request at a server, or a session of a client if there is no number; noSession
// stands for all sessions.
type typeKey struct {
	client, server netip.AddrPort
	session        uint32
	number         uint64
}

const (
	noSession = wire.NoSession
	mixed     = -1 // sessions of one client have used the number for several types
)

// Of returns the request type of a packet that has travelled from src to dst; ok is false if it has
// none, or it is not known. It remembers what the packet says of others: each packet is to be
// given once, in the order of their times.
func (t *Types) Of(src, dst netip.AddrPort, e *ERPC) (reqType uint8, ok bool) {
	if a, is := e.Body.(*wire.Accept); is && e.Type == wire.TypeMgmt {
		t.room()
		t.now.ends[typeKey{dst, src, e.Session, 0}] = a.Session
	}
	switch e.Type {
	case wire.TypeMgmt:
		return 0, false
	case wire.TypeReq, wire.TypeRFR, wire.TypeCancel:
		t.note(typeKey{src, dst, e.Session, e.ReqNum}, int(e.ReqType), false)
		t.note(typeKey{src, dst, noSession, e.ReqNum}, int(e.ReqType), true)
	}
	if e.SaysType() {
		return e.ReqType, true
	}
	key := typeKey{dst, src, noSession, e.ReqNum}
	if s, known := find(t, typeKey{dst, src, e.Session, 0}, ends); known {
		key.session = s
	}
	typ, known := find(t, key, asked)
	return uint8(typ), known && typ != mixed
}

// note remembers the type of a request. For all sessions it may be several.
func (t *Types) note(key typeKey, typ int, all bool) {
	if old, known := find(t, key, asked); known && all && old != typ {
		typ = mixed
	}
	t.room()
	t.now.asked[key] = typ
}

func asked(r *remembered) map[typeKey]int   { return r.asked }
func ends(r *remembered) map[typeKey]uint32 { return r.ends }

// find looks in both halves.
func find[V any](t *Types, key typeKey, in func(*remembered) map[typeKey]V) (v V, ok bool) {
	if v, ok = in(&t.now)[key]; !ok {
		v, ok = in(&t.before)[key]
	}
	return v, ok
}

// room makes room for what is to be remembered.
func (t *Types) room() {
	if n := len(t.now.asked) + len(t.now.ends); t.now.asked == nil || n >= mostRemembered {
		t.before, t.now = t.now, remembered{map[typeKey]int{}, map[typeKey]uint32{}}
	}
}
