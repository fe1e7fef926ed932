package herd

import (
	"errors"
	"fmt"
)

// Batch is how many requests and repeated answers a Part handles at a time.
const Batch = 64

// looks is how often a frame with a wrong checksum is looked at before it counts as torn.
const looks = 16

// Errors of a Part.
var (
	ErrClient = errors.New("herd: no such client")
	ErrSlot   = errors.New("herd: no such slot")
)

// Request is a request of a batch.
type Request struct {
	Kind    uint8
	Body    []byte  // a copy
	Room    []byte  // the response goes to its beginning,
	Size    int     // with so many bytes; or there is none, but a
	Refused Refusal // refusal
}

// Handler runs requests.
type Handler interface {
	// Run runs all requests that are not refused yet, in any order: each came before the answers
	// of the others. It keeps none.
	Run(list []Request)
}

// Answer is a frame to be posted.
type Answer struct {
	Client int
	Slot   int    // of the chunk
	Frame  []byte // part of the client's answers, until the slot's next request
}

// Part is the server's side of one partition. One goroutine at a time uses it.
type Part struct {
	g       Geometry
	first   int // its first slot of a chunk
	handler Handler
	clients []*client // by number; nil: none
	count   int
	active  []*client // those with a chunk
	at      int       // where the next sweep begins: active client and slot
	slotAt  int
	batch   [Batch]Request
	from    [Batch]origin
	n       int
	answers []Answer
	copies  []byte // bodies
	stats   Stats
}

// client is a Part's state of a client.
type client struct {
	number   int
	requests []byte // the chunk, in which the client writes; nil: it sends datagrams
	answers  []byte // the last answer of each slot
	slots    []slotState
}

// slotState is a Part's state of a slot.
type slotState struct {
	seen    Mark   // the mark that was looked at last
	seq     uint64 // of the last request
	size    int    // of its answer, 0: not yet
	wrong   uint8  // looks at a frame with a wrong checksum
	waiting bool   // the request is in the batch
}

// origin says whose a request of the batch is.
type origin struct {
	c    *client
	slot int // of the window
	mark Mark
}

// NewPart makes partition number for so many clients at most. The error is ErrConfig.
func NewPart(g Geometry, number, clients int, h Handler) (*Part, error) {
	if err := g.Check(); err != nil {
		return nil, err
	}
	if number < 0 || number >= g.Partitions || clients < 1 || clients > 1<<16 || h == nil {
		return nil, fmt.Errorf("%w: partition %d for %d clients", ErrConfig, number, clients)
	}
	return &Part{g: g, first: number * g.Window, handler: h, clients: make([]*client, clients),
		answers: make([]Answer, 0, Batch), copies: make([]byte, Batch*g.Slot)}, nil
}

// Join adds a client: its chunk, zeroed, and memory of the same size for its answers. The Part uses
// both until Leave. Without a chunk its requests come by Offer. Errors: ErrClient if the number is
// out of range or taken, ErrConfig.
func (p *Part) Join(number int, requests, answers []byte) error {
	if number < 0 || number >= len(p.clients) || p.clients[number] != nil {
		return fmt.Errorf("%w: number %d", ErrClient, number)
	}
	if requests != nil && len(requests) < p.g.Chunk() || len(answers) < p.g.Chunk() {
		return fmt.Errorf("%w: a chunk of %d bytes, answers of %d", ErrConfig,
			len(requests), len(answers))
	}
	c := &client{number: number, requests: requests, answers: answers,
		slots: make([]slotState, p.g.Window)}
	p.clients[number] = c
	p.count++
	if requests != nil {
		p.active = append(p.active, c)
	}
	return nil
}

// Leave removes a client. It is called between Run and the next Sweep or Offer.
func (p *Part) Leave(number int) {
	if number < 0 || number >= len(p.clients) || p.clients[number] == nil {
		return
	}
	p.count--
	for i, c := range p.active {
		if c == p.clients[number] {
			p.active = append(p.active[:i], p.active[i+1:]...)
			break
		}
	}
	p.clients[number] = nil
	p.at, p.slotAt = 0, 0
}

// Clients returns how many clients there are.
func (p *Part) Clients() int { return p.count }

// Stats returns the counters.
func (p *Part) Stats() Stats { return p.stats }

// Room returns how many requests fit into the batch.
func (p *Part) Room() int { return Batch - p.n - len(p.answers) }

// Sweep looks at each slot of all clients, until the batch is full; the next one goes on from
// there. It returns how many requests and answers the batch has.
func (p *Part) Sweep() int {
	window := p.g.Window
	for range len(p.active) * window {
		if p.Room() == 0 {
			break
		}
		if p.at >= len(p.active) {
			p.at = 0
		}
		c := p.active[p.at]
		i := p.slotAt
		slot := p.g.slot(c.requests, p.first+i)
		if m := loadMark(slot); m != c.slots[i].seen {
			p.look(c, i, m, slot, nil)
		}
		if p.slotAt++; p.slotAt == window {
			p.slotAt = 0
			p.at++
		}
	}
	return p.n + len(p.answers)
}

// Offer takes a request that came as a datagram, for a slot of the chunk of a client. It is called
// while there is Room. Errors: ErrClient, ErrSlot, ErrLength, ErrTorn; all are counted.
func (p *Part) Offer(number, slot int, frame []byte) error {
	if number < 0 || number >= len(p.clients) || p.clients[number] == nil {
		p.stats.Strays++
		return ErrClient
	}
	if slot < p.first || slot >= p.first+p.g.Window {
		p.stats.Strays++
		return ErrSlot
	}
	_, _, m, err := open(frame)
	if len(frame) > p.g.Slot {
		err = ErrLength
	}
	if err != nil {
		p.stats.Torn++
		return err
	}
	p.look(p.clients[number], slot-p.first, m, nil, frame)
	return nil
}

// look follows a mark that is another one than before, with the slot, or the frame that came.
func (p *Part) look(c *client, i int, m Mark, slot, frame []byte) {
	st := &c.slots[i]
	switch seq := m.Seq(); {
	case seq < st.seq || seq == 0:
		st.seen = m
		p.stats.Stale++
		return
	case seq == st.seq:
		st.seen = m
		if !st.waiting {
			p.repeat(c, i, m)
		}
		return
	}
	buf := p.copies[p.n*p.g.Slot:][:p.g.Slot]
	var body []byte
	var kind uint8
	var err error
	if frame != nil {
		body, kind, _, err = open(frame)
		body = buf[:copy(buf, body)]
	} else {
		body, kind, err = take(slot, buf, m)
	}
	if err == ErrTorn {
		p.stats.Retakes++
		if st.wrong++; st.wrong < looks {
			return
		}
		p.stats.Torn++
		st.wrong, st.seen = 0, m
		return
	}
	st.seen, st.seq, st.wrong, st.waiting = m, m.Seq(), 0, true
	room := p.g.slot(c.answers, p.first+i)[:p.g.Body():p.g.Body()]
	r := &p.batch[p.n]
	*r = Request{Kind: kind, Body: body, Room: room}
	if err != nil {
		r.Refused = BadLength
	}
	p.from[p.n] = origin{c, i, m}
	p.n++
}

// repeat sends the answer of a slot again.
func (p *Part) repeat(c *client, i int, m Mark) {
	p.stats.Repeats++
	frame := p.g.slot(c.answers, p.first+i)[:c.slots[i].size]
	remark(frame, m)
	p.answers = append(p.answers, Answer{c.number, p.first + i, frame})
}

// Run runs the batch, and returns all answers to be posted, valid until the next Sweep or Offer.
func (p *Part) Run() []Answer {
	list := p.batch[:p.n]
	if p.n > 0 {
		p.handler.Run(list)
	}
	for k := range list {
		r, o := &list[k], &p.from[k]
		if r.Refused >= refusals || r.Size < 0 || r.Size > len(r.Room) {
			r.Refused = TooLong
		}
		if r.Refused != Answered {
			r.Size = 0
		}
		p.stats.Refused[r.Refused]++
		answer := p.g.slot(o.c.answers, p.first+o.slot)
		size := seal(answer, r.Size, uint8(r.Refused), o.mark)
		st := &o.c.slots[o.slot]
		st.size, st.waiting = size, false
		p.answers = append(p.answers, Answer{o.c.number, p.first + o.slot, answer[:size]})
		p.from[k] = origin{}
	}
	if len(p.answers) > 0 {
		p.stats.Sweeps++
	}
	p.stats.Requests += uint64(p.n)
	out := p.answers
	p.n, p.answers = 0, p.answers[:0]
	return out
}
