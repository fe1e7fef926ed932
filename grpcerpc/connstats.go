package grpcerpc

import (
	"context"

	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
)

// connWatch tells stats handlers of one connection, as often as there is one: it begins when the
// server has answered Hello, at either side. Without any its methods do nothing.
type connWatch struct {
	list   []stats.Handler
	ctx    context.Context // with their tags
	client bool
}

// watchConn tags a connection, and tells that it begins.
func watchConn(list []stats.Handler, client bool, p *peer.Peer) connWatch {
	w := connWatch{list: list, ctx: context.Background(), client: client}
	for _, h := range list {
		// Each has an info of its own: it may keep it.
		w.ctx = h.TagConn(w.ctx, &stats.ConnTagInfo{RemoteAddr: p.Addr, LocalAddr: p.LocalAddr})
	}
	for _, h := range list {
		h.HandleConn(w.ctx, &stats.ConnBegin{Client: client})
	}
	return w
}

// end tells that the connection has ended.
func (w *connWatch) end() {
	for _, h := range w.list {
		h.HandleConn(w.ctx, &stats.ConnEnd{Client: w.client})
	}
}

// under returns the context of a call, with what handlers have tagged its connection with.
func (w *connWatch) under(call context.Context) context.Context {
	if len(w.list) == 0 {
		return call
	}
	return connContext{call, w.ctx}
}

// connContext is the context of a call that has the values of its connection's as well.
type connContext struct {
	context.Context
	conn context.Context
}

// Value implements context.Context.
func (c connContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.conn.Value(key)
}
