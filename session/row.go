package session

import (
	"math"
	"time"

	"github.com/userspace-rpc/erpc/cc"
	"github.com/userspace-rpc/erpc/internal/monotime"
)

// row says how many packets of a paced session leave in a row, as a train. See Rows in the package
// comment.
type row struct {
	ahead  time.Duration // how far ahead of its time the last one may leave; 0 for one by one
	told   monotime.Time // when the packet was sent whose answer the controller was told of last
	joined uint8         // answers to others that were sent then
	length uint8         // packets, if the rate is high enough
}

const (
	// rowHosts is for how long the rate of a session gathers a row, in units of Pacing.Hosts: 4 ms
	// over sockets, in which a session of 25 Mbit/s sends eight packets.
	rowHosts = 40
	// firstRow is how long rows are at first, and the shortest that shows something.
	firstRow = 2
)

// ofRow takes an answer that came now, after rtt or 0. It reports whether its packet was sent in a
// row with that of the answer which the controller was told of last.
func (c *Client) ofRow(now monotime.Time, rtt time.Duration) bool {
	p := &c.pace
	if p.ctl == nil || p.cfg.Hosts == 0 || rtt == 0 {
		return false
	}
	r := &p.ctl.row
	own := c.sampled == r.told
	switch {
	case !own:
		if r.joined+1 >= max(r.length, firstRow) {
			r.length = min(2*r.length, maxStride)
		}
		r.joined = 0
	case now.Sub(p.toldAt) > p.cfg.Hosts:
		r.length, r.joined = max(1, r.length/2), 0
	case r.joined < math.MaxUint8:
		r.joined++
	}
	return own && r.ahead > 0
}

// sizeRow sets how many packets leave in a row at a rate at which one takes so many ns.
func (c *Client) sizeRow(packet float64) {
	r := &c.pace.ctl.row
	n := min(math.Floor(float64(rowHosts*c.pace.cfg.Hosts)/packet), float64(r.length))
	if n > 1 {
		r.ahead = time.Duration((n - 1) * packet)
	}
}

// control is the controller of a session, and its rows.
type control struct {
	cc.Controller
	row
	basis time.Duration // least round trip for which pacer.limit is more than usual; 0 if it is not
}

func newControl(cfg *Pacing) *control {
	return &control{Controller: cfg.Algorithm.New(cfg.LinkRate), row: row{length: firstRow}}
}

// ahead returns how far ahead of its time the last packet of a row may leave.
func (p *pacer) ahead() time.Duration {
	if p.ctl == nil {
		return 0
	}
	return p.ctl.row.ahead
}
