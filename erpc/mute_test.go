package erpc_test

import (
	"sync/atomic"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// mute is a UDP transport whose process can crash, for its peers: from then on it
// sends nothing.
type mute struct {
	*udp.Conn
	dead atomic.Bool
}

func (m *mute) crash() { m.dead.Store(true) }

// TxBurst takes the packets, and loses them if the transport has crashed.
func (m *mute) TxBurst(items []transport.TxItem) (int, error) {
	if m.dead.Load() {
		return len(items), nil
	}
	return m.Conn.TxBurst(items)
}
