package engine

import (
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// A dial may end here when its server has opened the session, or is about to: its owner gave it up,
// or time was up. This side cannot say so before the Accept tells the server's number and token. So
// what names the attempt is kept for a moment, and an Accept that comes for it is answered with a
// Disconnect. If none comes, or that is lost, the session ends at the server by silence.

const (
	// abandonedFor is how long such a dial is kept.
	abandonedFor = time.Second
	// maxAbandoned bounds how many are kept, the latest ones.
	maxAbandoned = 256
	// maxDeclined bounds how many Accepts of one are answered. The server sends one for each Connect
	// with a cookie that reaches it, and a late one opens another session.
	maxDeclined = 4
)

// abandonedDial is a dial that has ended and may have a session at its server.
type abandonedDial struct {
	nonce    uint64
	peer     transport.Addr
	via      uint32 // the association that it opened on, 0 without
	token    uint32 // in packets to this side
	version  uint8
	declined uint8 // Accepts that were answered
	until    monotime.Time
}

// abandon keeps what names a dial that ends, if its server may open the session.
func (e *Engine) abandon(s *Conn) {
	d := s.dialer
	if d == nil || !d.Proved() || s.handshake != nil && !s.handshake.opening {
		return
	}
	h := &e.handshakes
	if len(h.abandoned) == maxAbandoned {
		h.abandoned = slices.Delete(h.abandoned, 0, 1)
	}
	h.abandoned = append(h.abandoned, abandonedDial{
		nonce: d.Connect.Nonce, peer: s.End.Peer, via: s.End.Via, token: s.End.LocalToken,
		version: d.Version, until: e.in.Now.Add(abandonedFor),
	})
}

// decline answers an Accept of an abandoned dial: its session has no owner here.
func (e *Engine) decline(a *wire.Accept, token uint32, from *transport.Addr, via uint32) {
	h := &e.handshakes
	h.abandoned = slices.DeleteFunc(h.abandoned, func(d abandonedDial) bool {
		return e.in.Now >= d.until
	})
	for i := range h.abandoned {
		d := &h.abandoned[i]
		if d.nonce != a.Nonce || d.token != token || d.via != via || via == 0 && d.peer != *from ||
			d.declined == maxDeclined {
			continue
		}
		d.declined++
		end := session.End{Peer: d.peer, Via: via, Remote: a.Session, RemoteToken: a.Token}
		end.Version = d.version
		if with := e.assocs.find(via); with != nil {
			end.Peer = with.addr
		} else if via != 0 {
			return // it ended by a packet before
		}
		new(session.Liveness).Farewell(&end, nil, e.Out)
		return
	}
}
