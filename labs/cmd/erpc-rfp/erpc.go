package main

import (
	"errors"
	"net"
	"net/netip"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/rfp"
	"github.com/userspace-rpc/erpc/rfp/jakiro"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/shm"
	"github.com/userspace-rpc/erpc/transport/ud"
)

// erpcDriver makes the same requests by RPCs of this library over shared memory.
type erpcDriver struct {
	checker
	nexus   *erpc.Nexus
	rpc     *erpc.Rpc
	session *erpc.Session
	free    []buffers
	kb      [keyBytes]byte
	buf     []byte
	val     []byte
	done    erpc.Continuation
}

// buffers are those of a call.
type buffers struct{ req, resp *erpc.MsgBuffer }

// endpoint opens one of this library's transports: ud at an adapter, or else shared memory.
func (w *workload) endpoint(at netip.Addr) (transport.Transport, error) {
	if w.rdma() {
		return ud.Listen(net.JoinHostPort(at.String(), "0"), ud.Config{})
	}
	return shm.Listen("", shm.Config{})
}

func (w *workload) dialErpc(addr string, slots int) (*erpcDriver, error) {
	n, err := erpc.NewNexus(erpc.Config{Timing: erpcTiming(), Slots: slots})
	if err != nil {
		return nil, err
	}
	conn, err := w.endpoint(w.client)
	if err != nil {
		return nil, err
	}
	rpc, err := n.NewRpc(conn)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	d := &erpcDriver{checker: checker{w: w}, nexus: n, rpc: rpc}
	d.done = d.ends
	if d.session, err = rpc.CreateSession(addr); err != nil {
		return nil, errors.Join(err, d.close())
	}
	for range slots {
		req, err := rpc.Alloc(1 + keyBytes + w.Value)
		if err != nil {
			return nil, errors.Join(err, d.close())
		}
		resp, err := rpc.Alloc(1 + w.Value)
		if err != nil {
			return nil, errors.Join(err, d.close())
		}
		d.free = append(d.free, buffers{req, resp})
	}
	return d, nil
}

func (d *erpcDriver) ends(c erpc.Completion) {
	d.free = append(d.free, buffers{c.Req, c.Resp})
	var resp []byte
	if c.Err == nil {
		resp = c.Resp.Data()
	}
	d.answer(c.Tag, resp, c.Err)
}

func (d *erpcDriver) send(get bool, i uint64) (bool, error) {
	if len(d.free) == 0 {
		return false, nil
	}
	k := key(&d.kb, i)
	q := erpc.Request{Type: jakiro.Get, Tag: i, Done: d.done}
	body := k
	if !get {
		d.val = appendValue(d.val[:0], i, d.w.Value)
		d.buf = jakiro.AppendPut(d.buf[:0], k, d.val)
		q.Type, q.Tag, body = jakiro.Put, i|putTag, d.buf
	}
	b := d.free[len(d.free)-1]
	d.free = d.free[:len(d.free)-1]
	if err := b.req.Resize(len(body)); err != nil {
		return false, err
	}
	copy(b.req.Data(), body)
	q.Req, q.Resp = b.req, b.resp
	if _, err := d.rpc.EnqueueRequest(d.session, q); err != nil {
		return false, err
	}
	d.begun++
	return true, nil
}

func (d *erpcDriver) poll(rfp.Time) error {
	_, err := d.rpc.RunOnce()
	return errors.Join(d.err, err)
}

func (d *erpcDriver) close() error {
	for _, b := range d.free {
		b.req.Free()
		b.resp.Free()
	}
	return errors.Join(d.rpc.Close(), d.nexus.Close())
}
