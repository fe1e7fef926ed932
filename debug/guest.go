package debug

import (
	"net"
	"slices"
	"sync"

	"github.com/userspace-rpc/erpc/erpc"
)

// guest is a connection that counts while it is open.
type guest struct {
	net.Conn
	left chan struct{}
	once sync.Once
}

// Close implements net.Conn.
func (g *guest) Close() error {
	g.once.Do(func() { <-g.left })
	return g.Conn.Close()
}

// rpcsOf returns the endpoints of what is watched, each once.
func rpcsOf(watched []erpc.Watched) (list []*erpc.Rpc) {
	for _, w := range watched {
		for _, r := range w.Rpcs() {
			if !slices.Contains(list, r) {
				list = append(list, r)
			}
		}
	}
	return list
}
