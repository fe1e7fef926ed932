package grpcerpc

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"time"

	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/grpcerpc/internal/frame"
)

// link is a connection to one server, the client's end of a serverConn. It ends when the server's
// sessions are lost, when the server says that it goes, and when its subConn is shut down. In the
// last two cases the calls that it has go on, and the last of them closes it.
type link struct {
	cc     *ClientConn
	creds  *connCreds
	loop   *sharedLoop
	unloop func() error // gives it back
	client *erpc.Client
	token  uint64
	peer   *peer.Peer
	pipe   *pipe  // of its streams
	onEnd  func() // called once, in the loop or any goroutine: no new calls are wanted
	sc     *subConn
	silent bool // its server is, and calls go to others; in the loop only

	watch      connWatch
	places     places
	maxHeaders int    // bytes that the server takes of a call's header; 0: it does not say
	authority  string // of calls that name no other one

	mu      sync.Mutex
	users   int
	open    bool
	retired bool
	closed  bool
	ended   sync.Once
}

// helloWithin bounds how long a server takes to answer Hello, as gRPC bounds connecting. Without
// it a server that never does would keep its client from all others.
const helloWithin = 20 * time.Second

// authorityOf returns the authority of calls to an address: WithAuthority's, else the address's
// own, else that of the target. Sessions by TLS know the server by the last one.
func (cc *ClientConn) authorityOf(a resolver.Address, sealed bool) (string, error) {
	if a.ServerName == "" || cc.opts.authority != "" || a.ServerName == cc.authority {
		return cc.authority, nil
	}
	if sealed {
		return "", fmt.Errorf("grpcerpc: %s has the ServerName %q, by which sessions with TLS cannot "+
			"know it: WithAuthority gives them a name", a.Addr, a.ServerName)
	}
	return a.ServerName, nil
}

// openLink connects to a server, for sc.
func (cc *ClientConn) openLink(
	ctx context.Context, sc *subConn, at resolver.Address, onEnd func(),
) (*link, error) {
	authority, err := cc.authorityOf(at, sc.creds.seals)
	if err == nil {
		err = sc.creds.check()
	}
	if err != nil {
		return nil, err
	}
	l := &link{cc: cc, creds: sc.creds, sc: sc, onEnd: onEnd, users: 1, // until it is open
		authority: authority}
	if l.loop, l.unloop, err = sc.creds.loop(cc); err != nil {
		return nil, err
	}
	if err = l.connect(ctx, at.Addr); err != nil {
		if l.client != nil {
			_ = l.client.Close()
		}
		_ = l.unloop() // the error is why
		return nil, err
	}
	if err = l.begin(); err != nil {
		return nil, err
	}
	return l, nil
}

// connect opens the connection at an address.
func (l *link) connect(ctx context.Context, addr string) error {
	local, err := l.localServer(addr)
	if err != nil {
		return err
	}
	if l.client, err = l.loop.DialWatched(ctx, addr, l); err != nil {
		return err
	}
	w, err := l.hello(ctx, addr)
	if err != nil {
		return err
	}
	p := *security
	if to, err := l.loop.transport.Resolve(addr); err == nil {
		p.Addr = addrOf(to)
	}
	if local != nil {
		p.AuthInfo = local
	}
	p.LocalAddr = addrOf(l.loop.transport.LocalAddr())
	l.token, l.peer = w.Token, &p
	l.places.most, l.maxHeaders = limitOf(w.MaxCalls), limitOf(w.MaxHeaders)
	l.watch = watchConn(l.cc.opts.stats, true, l.peer)
	return nil
}

// hello asks the server for a connection.
func (l *link) hello(ctx context.Context, addr string) (w frame.Welcome, err error) {
	hello := frame.Hello{Version: frame.Version, UserAgent: l.cc.opts.userAgent,
		Authority: l.authority, Accept: accepted()}
	limited, cancel := context.WithTimeout(ctx, l.cc.patience)
	answer, err := l.client.Call(limited, frame.TypeHello, hello.Append(nil))
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("grpcerpc: %s did not say hello within %v", addr, l.cc.patience)
	}
	cancel()
	if err == nil {
		w, err = frame.ParseWelcome(answer)
	}
	if err == nil && w.Refusal != "" {
		err = fmt.Errorf("grpcerpc: %s refused the connection: %s", addr, w.Refusal)
	}
	if err == nil && w.Version != frame.Version {
		err = fmt.Errorf("grpcerpc: %s speaks version %d of the format", addr, w.Version)
	}
	return w, err
}

// begin lets calls use the connection.
func (l *link) begin() error {
	l.pipe = newPipe(l, l.loop)
	l.cc.mu.Lock()
	l.cc.links[l] = struct{}{}
	l.cc.mu.Unlock()
	token := binary.LittleEndian.AppendUint64(nil, l.token)
	err := l.client.KeepSlots(maxParked + 1)
	if err == nil {
		err = l.client.Unhurried(frame.TypeLife, frame.TypeLeave, frame.TypeExchange)
	}
	if err == nil {
		err = l.client.Start(frame.TypeLife, token, l.onLife)
	}
	if err == nil {
		err = l.client.Start(frame.TypeLeave, token, l.onLeave)
	}
	if err != nil {
		l.end()
		return err
	}
	l.mu.Lock()
	l.open = true
	l.mu.Unlock()
	l.drop()
	return nil
}

// limitOf returns a limit that a server says as an int.
func limitOf(n uint64) int { return int(min(n, math.MaxInt)) }

// Silent implements erpc.Watcher. At most half of the servers may be silent, as in a Pool.
func (l *link) Silent() bool {
	l.mu.Lock()
	open := l.open && !l.retired
	l.mu.Unlock()
	l.silent = open && l.cc.hush()
	if l.silent {
		l.cc.serial.do(func() { l.sc.silent(l) })
	}
	return l.silent
}

// Heard implements erpc.Watcher.
func (l *link) Heard() {
	l.silent = false
	l.cc.silent.Add(-1)
	l.cc.serial.do(func() { l.sc.heard(l) })
}

// Lost implements erpc.Watcher.
func (l *link) Lost(error) {
	if l.silent {
		l.silent = false
		l.cc.silent.Add(-1)
	}
	l.retire()
}

// hush counts a server as silent, if at most half of all are then.
func (cc *ClientConn) hush() bool {
	if 2*cc.silent.Add(1) <= cc.servers.Load() {
		return true
	}
	cc.silent.Add(-1)
	return false
}

// onLeave takes the end of Leave, in the loop: the server takes no new calls.
func (l *link) onLeave([]byte, error) { l.retire() }

// onLife takes the end of Life, in the loop: its answer says that the server has ended the
// connection, an error that the server is gone.
func (l *link) onLife(_ []byte, err error) {
	if err != nil {
		l.pipe.fail(err)
	}
	l.retire()
}

// acquire counts a call in. It reports false if the link takes none.
func (l *link) acquire() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.retired {
		return false
	}
	l.users++
	return true
}

// release counts a call out that had a place. It may be called in the loop.
func (l *link) release() {
	l.places.leave()
	l.drop()
}

// drop counts a call out that has no place.
func (l *link) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users--
	l.tryClose()
}

// retire lets the link take no more calls.
func (l *link) retire() {
	l.mu.Lock()
	l.retired = true
	l.tryClose()
	l.mu.Unlock()
	l.places.close()
	l.ended.Do(l.onEnd)
}

// tryClose closes the client when nobody uses it. That may not happen in the loop.
func (l *link) tryClose() {
	if l.retired && l.users == 0 && !l.closed {
		l.closed = true
		l.cc.closing.Go(l.close)
	}
}

// end ends the link and the calls that it has.
func (l *link) end() {
	l.mu.Lock()
	l.retired = true
	mine := !l.closed
	l.closed = true
	l.mu.Unlock()
	l.places.close()
	l.ended.Do(l.onEnd)
	if mine {
		l.close()
	}
}

// close closes the client and forgets the link.
func (l *link) close() {
	_ = l.client.Close() // nothing is left to be done about it
	_ = l.unloop()
	l.watch.end()
	l.cc.mu.Lock()
	defer l.cc.mu.Unlock()
	delete(l.cc.links, l)
}

// alive reports whether the link takes calls.
func (l *link) alive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.retired
}
