package simtest

import (
	"bytes"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
)

// overheard sees what a process with keys sends, between it and its transport: all that leaves is
// sealed, but handshakes, and shows nothing of messages.
type overheard struct {
	transport.Transport
	c *cluster
}

// overhear returns the transport of a process of the cluster, watched if it has keys.
func (c *cluster) overhear(cfg *erpc.Config, tr transport.Transport) transport.Transport {
	if cfg.PSK == nil && cfg.TLS == nil {
		return tr
	}
	c.clear.Demand(tr.LocalAddr())
	return overheard{tr, c}
}

func (o overheard) TxBurst(items []transport.TxItem) (int, error) {
	c, from := o.c, o.LocalAddr()
	c.secrets = c.secrets[:0]
	for _, k := range c.calls {
		for _, b := range k.secrets {
			if b != nil && k.ends == 0 {
				c.secrets = append(c.secrets, b)
			}
		}
	}
	for i := range items {
		t := &items[i]
		c.whole = append(append(c.whole[:0], t.Head...), t.Data...)
		if err := c.clear.Left(from, t.Dst, c.whole, c.secrets...); err != nil {
			c.fail("%v", err)
		}
	}
	return o.Transport.TxBurst(items)
}

// secretOf returns bytes by which a message is known, nil if it is too short for that.
func secretOf(message []byte) []byte {
	if len(message) < 16 {
		return nil
	}
	return bytes.Clone(message[:16])
}
