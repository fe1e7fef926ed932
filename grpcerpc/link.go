package grpcerpc

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/peer"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/grpcerpc/internal/frame"
)

// link is a connection to one server, the client's end of a serverConn. It ends when the server's
// sessions are lost, when the server says that it goes, and when its subConn is shut down. In the
// last two cases the calls that it has go on, and the last of them closes it.
type link struct {
	cc     *ClientConn
	client *erpc.Client
	token  uint64
	peer   *peer.Peer
	pipe   *pipe  // of its streams
	onEnd  func() // called once, in the loop or any goroutine: no new calls are wanted

	mu      sync.Mutex
	users   int
	retired bool
	closed  bool
	ended   sync.Once
}

// helloWithin bounds how long a server takes to answer Hello, as gRPC bounds connecting. Without
// it a server that never does would keep its client from all others.
const helloWithin = 20 * time.Second

// openLink connects to a server.
func (cc *ClientConn) openLink(ctx context.Context, addr string, onEnd func()) (*link, error) {
	client, err := cc.loop.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	hello := frame.Hello{Version: frame.Version, UserAgent: cc.opts.userAgent, Authority: cc.authority}
	limited, cancel := context.WithTimeout(ctx, cc.patience)
	answer, err := client.Call(limited, frame.TypeHello, hello.Append(nil))
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("grpcerpc: %s did not say hello within %v", addr, cc.patience)
	}
	cancel()
	var w frame.Welcome
	if err == nil {
		w, err = frame.ParseWelcome(answer)
	}
	if err == nil && w.Refusal != "" {
		err = fmt.Errorf("grpcerpc: %s refused the connection: %s", addr, w.Refusal)
	}
	if err == nil && w.Version != frame.Version {
		err = fmt.Errorf("grpcerpc: %s speaks version %d of the format", addr, w.Version)
	}
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	p := *security
	if to, err := cc.loop.transport.Resolve(addr); err == nil {
		p.Addr = addrOf(to)
	}
	p.LocalAddr = addrOf(cc.loop.transport.LocalAddr())
	l := &link{cc: cc, client: client, token: w.Token, peer: &p, onEnd: onEnd}
	l.pipe = newPipe(l)
	cc.mu.Lock()
	cc.links[l] = struct{}{}
	cc.mu.Unlock()
	token := binary.LittleEndian.AppendUint64(nil, w.Token)
	if err = client.Start(frame.TypeLife, token, l.onLife); err == nil {
		err = client.Start(frame.TypeLeave, token, l.onLeave)
	}
	if err != nil {
		l.end()
		return nil, err
	}
	return l, nil
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

// release counts a call out. It may be called in the loop.
func (l *link) release() {
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
	l.ended.Do(l.onEnd)
	if mine {
		l.close()
	}
}

// close closes the client and forgets the link.
func (l *link) close() {
	_ = l.client.Close() // nothing is left to be done about it
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
