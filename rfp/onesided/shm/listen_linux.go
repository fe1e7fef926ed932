package shm

import (
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/userspace-rpc/erpc/rfp/onesided"
	"golang.org/x/sys/unix"
)

// handshakes bounds the connections that are no links in use yet: those whose handshake goes on,
// and those that Accept has not returned yet.
const handshakes = 64

// Listener makes links with the processes that dial. Each handshake goes on by itself, so a peer
// that says nothing stops no other.
type Listener struct {
	socket    *net.UnixListener
	own, peer []onesided.Spec
	done      chan accepting
	end       chan struct{}
	room      chan struct{} // a place for each of the handshakes
	running   sync.WaitGroup

	mu          sync.Mutex
	handshaking []*net.UnixConn // the oldest first
	closed      bool
}

type accepting struct {
	link *Link
	err  error
}

// Listen waits at a path for dialling processes. Its links have the regions own, and the peer's
// are peer. Errors: onesided.ErrSpec, those of the system.
func Listen(path string, own, peer []onesided.Spec) (*Listener, error) {
	if err := errors.Join(onesided.CheckSpecs(own), onesided.CheckSpecs(peer)); err != nil {
		return nil, err
	}
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l := &Listener{socket: socket, own: own, peer: peer, done: make(chan accepting),
		end: make(chan struct{}), room: make(chan struct{}, handshakes)}
	l.running.Add(1)
	go l.listen()
	return l, nil
}

// Accept waits for the next link. A peer that breaks the handshake is not reported. Errors:
// net.ErrClosed, those of the system, after which it may be called again.
func (l *Listener) Accept() (*Link, error) {
	select {
	case a := <-l.done:
		return a.link, a.err
	case <-l.end:
		return nil, net.ErrClosed
	}
}

// Close ends the listener, and the handshakes under way. Its links live on.
func (l *Listener) Close() error {
	l.mu.Lock()
	first := !l.closed
	l.closed = true
	for _, c := range l.handshaking {
		_ = c.Close()
	}
	l.mu.Unlock()
	if !first {
		return net.ErrClosed
	}
	err := l.socket.Close()
	close(l.end)
	l.running.Wait()
	return err
}

// listen begins a handshake with each process that dials.
func (l *Listener) listen() {
	defer l.running.Done()
	for {
		c, err := l.socket.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			l.give(nil, err)
			continue
		}
		if !l.enter(c) {
			_ = c.Close()
			return
		}
		l.running.Add(1)
		go l.handshake(c)
	}
}

// enter makes room for a handshake: the oldest one ends if there are too many, since an honest
// peer's takes no time. It waits if all the places are links that nobody accepts. It reports false
// when the listener has ended.
func (l *Listener) enter(c *net.UnixConn) bool {
	for {
		select {
		case l.room <- struct{}{}:
			l.mu.Lock()
			defer l.mu.Unlock()
			l.handshaking = append(l.handshaking, c)
			return !l.closed
		default:
		}
		l.mu.Lock()
		if len(l.handshaking) > 0 {
			_ = l.handshaking[0].Close()
		}
		l.mu.Unlock()
		select {
		case l.room <- struct{}{}:
			<-l.room
		case <-l.end:
			return false
		}
	}
}

// handshake makes a link of a connection, and hands it to Accept.
func (l *Listener) handshake(c *net.UnixConn) {
	defer l.running.Done()
	_ = c.SetDeadline(time.Now().Add(patience))
	link, err := l.serverHandshake(c)
	l.mu.Lock()
	l.handshaking = slices.DeleteFunc(l.handshaking, func(x *net.UnixConn) bool { return x == c })
	l.mu.Unlock()
	switch {
	case err == nil:
		l.give(link, nil)
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM):
		l.give(nil, err)
	}
	if err != nil {
		_ = c.Close()
	}
	<-l.room
}

// give hands a link or an error to Accept, unless the listener ends before.
func (l *Listener) give(link *Link, err error) {
	select {
	case l.done <- accepting{link, err}:
	case <-l.end:
		if link != nil {
			_ = link.Close()
		}
	}
}
