package flight

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/wire"
)

// stamp is how times of day are written.
const stamp = "15:04:05.000000"

// Name names the loop of a dump.
func (d *Dump) Name() string {
	if d.Loop == 0 {
		return d.Own.String()
	}
	return fmt.Sprintf("%v/%d", d.Own, d.Loop)
}

// Gap says what a dump does not have, or "" if it has all since recording began.
func (d *Dump) Gap() string {
	switch {
	case d.Late:
		return d.Name() + " did not answer: its record is missing here, and still there"
	case d.Missed > 0 && len(d.Entries) > 0:
		return fmt.Sprintf("%s: %d datagrams before %s are missing: the recorder holds %d",
			d.Name(), d.Missed, d.Entries[0].Time().UTC().Format(stamp), len(d.Entries))
	case d.Missed > 0:
		return fmt.Sprintf("%s: %d datagrams are missing", d.Name(), d.Missed)
	}
	return ""
}

// event is a line of text and its time.
type event struct {
	at   int64
	text string
}

// WriteText writes the packets of dumps as lines in the order of their times, after a line for what
// each dump does not have. The error is that of w.
func WriteText(w io.Writer, dumps ...*Dump) error {
	b := bufio.NewWriter(w)
	var events []event
	for _, d := range dumps {
		if gap := d.Gap(); gap != "" {
			fmt.Fprintf(b, "# %s\n", gap) // Flush has the error
		}
		for i := range d.Entries {
			if e := &d.Entries[i]; e.Kind == Blind {
				events = append(events, event{e.At, fmt.Sprintf("%s %s blind for %v",
					e.Time().UTC().Format(stamp), d.Name(), time.Duration(e.Size))})
			} else if wire.IsSealed(e.Data) {
				events = append(events, event{e.At, e.sealedLine(d)})
			}
		}
		d.walk(func(p *Packet, c *Call) { events = append(events, event{p.At, p.line(d, c)}) })
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	for _, e := range events {
		fmt.Fprintln(b, e.text)
	}
	return b.Flush()
}

// start is the beginning of an entry's line.
func (e *Entry) start(d *Dump) string {
	way := "<"
	if e.Kind == Sent {
		way = ">"
	}
	return fmt.Sprintf("%s %s %s %v", e.Time().UTC().Format(stamp), d.Name(), way, e.Peer)
}

// sealedLine is a sealed datagram as text: all that it says in the clear.
func (e *Entry) sealedLine(d *Dump) string {
	field := wire.SealedField(e.Data)
	return fmt.Sprintf("%s %v counter=%d index=%06x loop=%d bytes=%d", e.start(d), wire.TypeSealed,
		wire.SealedCounter(e.Data), field&wire.NoSession, wire.LoopOf(field), e.Size)
}

// line is a packet of a call as text.
func (p *Packet) line(d *Dump, c *Call) string {
	h := &p.Header
	text := fmt.Sprintf("%s %v session=%d req=%d pkt=%d size=%d", p.start(d), h.Type,
		h.Session, h.ReqNum, h.PktNum, h.MsgSize)
	if typ, ok := p.typeOf(c); ok {
		text += fmt.Sprintf(" type=%d", typ)
	}
	if (h.Type == wire.TypeResp || h.Type == wire.TypeErr) && h.Hold != wire.HoldUnknown {
		text += fmt.Sprintf(" hold=%v", time.Duration(h.Hold)*wire.HoldUnit)
	}
	if p.Inside > 0 {
		text += fmt.Sprintf(" inside=%d", p.Inside)
	}
	return text
}

// Took returns how long a call took as far as its packets show, in ns: until the first packet of
// the answer, or until the last packet if there is none.
func (c *Call) Took() int64 {
	if c.Answer != 0 {
		return c.Answer - c.First
	}
	return c.Last - c.First
}

// Blinded returns how long the loop of the dump did not look for packets while a call was under
// way, in ns. A call that ends in such a time has it whole.
func (d *Dump) Blinded(c *Call) (ns int64) {
	end := c.First + c.Took()
	for i := range d.Entries {
		e := &d.Entries[i]
		if e.Kind == Blind {
			ns += max(0, min(e.At, end)-max(e.At-int64(e.Size), c.First))
		}
	}
	return ns
}

// Unseen returns how long the loop did not look for packets before it found the first one of a call
// that it serves, in ns: the request waited in the transport for up to that long. 0 at the caller.
func (d *Dump) Unseen(c *Call) (ns int64) {
	if c.Client {
		return 0
	}
	for i := range d.Entries {
		if e := &d.Entries[i]; e.Kind == Blind && e.At == c.First {
			ns = max(ns, int64(e.Size))
		}
	}
	return ns
}

// WriteCalls writes the slowest calls of dumps, at most so many of each, with where their time
// went: held by the server, and the rest, which is the network, queues at both hosts and losses.
// The error is that of w.
func WriteCalls(w io.Writer, most int, dumps ...*Dump) error {
	b := bufio.NewWriter(w)
	for _, d := range dumps {
		if gap := d.Gap(); gap != "" {
			fmt.Fprintf(b, "# %s\n", gap) // Flush has the error
		}
		calls := d.Calls()
		slow := map[*Call]int64{}
		for _, c := range calls {
			slow[c] = c.Took() + d.Unseen(c)
		}
		slices.SortStableFunc(calls, func(a, b *Call) int { return cmp.Compare(slow[b], slow[a]) })
		fmt.Fprintf(b, "# %s: %d calls, %d datagrams; the slowest first\n", d.Name(), len(calls),
			len(d.Entries))
		for _, c := range calls[:min(most, len(calls))] {
			fmt.Fprintln(b, c.line(d))
		}
	}
	return b.Flush()
}

// line is a call as text.
func (c *Call) line(d *Dump) string {
	side := "served"
	if c.Client {
		side = "called"
	}
	text := fmt.Sprintf("%s %s %v type=%d req=%d took=%v", time.Unix(0, c.First).UTC().Format(stamp),
		side, c.Peer, c.Type, c.Number, time.Duration(c.Took()))
	switch {
	case c.Answer == 0:
		text += " unanswered"
	case c.Client && c.Hold < 0:
		text += " server=over-4ms-or-unknown"
	case c.Client:
		text += fmt.Sprintf(" server=%v rest=%v", time.Duration(c.Hold),
			time.Duration(max(0, c.Took()-c.Hold)))
	}
	if unseen := d.Unseen(c); unseen > 0 {
		text += fmt.Sprintf(" waited<=%v", time.Duration(unseen))
	}
	if blind := d.Blinded(c); blind > 0 {
		text += fmt.Sprintf(" blind=%v", time.Duration(blind))
	}
	if c.Again > 0 {
		text += fmt.Sprintf(" again=%d", c.Again)
	}
	if c.Error {
		text += " error"
	}
	return text + fmt.Sprintf(" packets=%d", c.Packets)
}
