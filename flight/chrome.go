package flight

import (
	"encoding/json"
	"fmt"
	"io"
)

// traceEvent is an event in the Trace Event Format of Chrome, which Perfetto reads too. Times are
// in us.
type traceEvent struct {
	Name  string         `json:"name"`
	Cat   string         `json:"cat,omitempty"`
	Phase string         `json:"ph"`
	At    float64        `json:"ts"`
	Took  float64        `json:"dur,omitempty"`
	PID   int            `json:"pid"`
	TID   int            `json:"tid"`
	ID    string         `json:"id,omitempty"`
	Scope string         `json:"s,omitempty"`
	Args  map[string]any `json:"args,omitempty"`
}

// chromeTrace is a file in that format.
type chromeTrace struct {
	Events []traceEvent      `json:"traceEvents"`
	Unit   string            `json:"displayTimeUnit"`
	Other  map[string]string `json:"otherData,omitempty"`
}

// WriteChrome writes dumps as a Chrome trace: a process for each loop, with an asynchronous span
// for each call, and for the server's hold within, the spells in which the loop was blind, and a
// mark for each packet. A gap is a mark, and is in otherData. The error is that of w.
func WriteChrome(w io.Writer, dumps ...*Dump) error {
	t := chromeTrace{Events: []traceEvent{}, Unit: "ns", Other: map[string]string{}}
	for i, d := range dumps {
		t.add(i+1, d)
	}
	return json.NewEncoder(w).Encode(&t)
}

func micro(ns int64) float64 { return float64(ns) / 1e3 }

// Threads of a loop in a trace.
const (
	callThread = iota + 1
	packetThread
	blindThread
)

// add adds a loop as a process.
func (t *chromeTrace) add(pid int, d *Dump) {
	t.name(pid, 0, "process_name", "erpc "+d.Name())
	t.name(pid, packetThread, "thread_name", "packets")
	t.name(pid, blindThread, "thread_name", "not looking")
	if gap := d.Gap(); gap != "" {
		t.Other["missing "+d.Name()] = gap
		if len(d.Entries) > 0 {
			t.Events = append(t.Events, traceEvent{Name: gap, Phase: "i", Scope: "p", PID: pid,
				TID: packetThread, At: micro(d.Entries[0].At)})
		}
	}
	for i := range d.Entries {
		if e := &d.Entries[i]; e.Kind == Blind {
			t.Events = append(t.Events, traceEvent{Name: "blind", Phase: "X", PID: pid,
				TID: blindThread, At: micro(e.At - int64(e.Size)), Took: micro(int64(e.Size))})
		}
	}
	calls := d.walk(func(p *Packet, c *Call) {
		way := "received "
		if p.Kind == Sent {
			way = "sent "
		}
		h := &p.Header
		args := map[string]any{"peer": p.Peer.String(), "session": h.Session, "req": h.ReqNum,
			"pkt": h.PktNum, "size": h.MsgSize}
		if typ, ok := p.typeOf(c); ok {
			args["type"] = typ
		}
		t.Events = append(t.Events, traceEvent{Name: way + h.Type.String(), Phase: "i", Scope: "t",
			PID: pid, TID: packetThread, At: micro(p.At), Args: args})
	})
	for i, c := range calls {
		t.call(pid, i, c)
	}
}

func (t *chromeTrace) name(pid, tid int, what, name string) {
	t.Events = append(t.Events, traceEvent{Name: what, Phase: "M", PID: pid, TID: tid,
		Args: map[string]any{"name": name}})
}

// call adds a call, and the time that the server held it about where that must have been.
func (t *chromeTrace) call(pid, i int, c *Call) {
	side := "served"
	if c.Client {
		side = "called"
	}
	args := map[string]any{"peer": c.Peer.String(), "req": c.Number, "packets": c.Packets,
		"again": c.Again, "answered": c.Answer != 0, "error": c.Error}
	t.span(pid, i, fmt.Sprintf("%s type %d", side, c.Type), c.First, c.First+c.Took(), args)
	if rest := c.Took() - c.Hold; c.Answer != 0 && c.Hold > 0 && rest >= 0 {
		from := c.First
		if c.Client {
			from += rest / 2
		}
		t.span(pid, i, "held by the server", from, from+c.Hold, nil)
	}
}

func (t *chromeTrace) span(pid, i int, name string, from, to int64, args map[string]any) {
	e := traceEvent{Name: name, Cat: "call", Phase: "b", PID: pid, TID: callThread,
		ID: fmt.Sprintf("%d.%d", pid, i), At: micro(from), Args: args}
	t.Events = append(t.Events, e)
	e.Phase, e.At, e.Args = "e", micro(to), nil
	t.Events = append(t.Events, e)
}
