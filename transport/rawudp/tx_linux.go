package rawudp

import "github.com/userspace-rpc/erpc/transport"

const (
	txFrames = 32 // most frames of one Send
	// txCopyMax is the packet size in bytes up to which packets are copied together,
	// so that a frame is one piece: the kernel's work per piece costs more.
	txCopyMax = 256
)

// train is one frame: consecutive items of a burst.
type train struct {
	from  int // index of the first item after the train before; those up to first cannot be sent
	first int // index of the first item
	items int
	bytes int
}

// transmitter turns bursts into frames and sends them.
type transmitter struct {
	c        *Conn
	dev      Device
	limit    int // bytes of the largest packet now
	segments int // most packets in a train; 1: none
	maxTrain int // bytes of payload in a train
	gather   int // pieces of a frame outside the device's memory
	partial  bool

	packets, bytes, dropped, stalls uint64

	trains  [txFrames + 1]train
	refused [txFrames]int // indexes in trains

	routes
}

func (t *transmitter) init(c *Conn, dc DeviceCaps) {
	t.c, t.dev, t.limit = c, c.dev, c.caps.MTU
	t.partial = dc.Checksum && (c.codec.v6 || !c.codec.local.NoChecksum)
	t.segments, t.gather = max(1, dc.Segments), dc.Gather
	if !t.partial {
		// Nobody would put the checksums into the packets of a train.
		t.segments, t.gather = 1, 0
	}
	t.maxTrain = min(c.codec.MaxPayload(1<<20), dc.TrainSize-c.codec.HeaderSize())
	t.routes.init(c)
}

// burst sends items and returns how many it took.
func (t *transmitter) burst(items []transport.TxItem) (int, error) {
	done := 0
	for done < len(items) {
		frames := t.dev.Reserve(min(len(items)-done, txFrames))
		if len(frames) == 0 {
			t.stalls++
			return done, nil
		}
		used, end := t.build(frames, items[done:])
		sent, err := 0, error(nil)
		if used > 0 {
			sent, err = t.dev.Send(used)
		}
		refused := t.settle(frames[:sent])
		if sent < used || err != nil {
			end = t.trains[sent].from
		} else {
			t.dropped += uint64(end - t.trains[used].from)
		}
		if refused > 0 {
			t.untrain(items[done:], refused)
		}
		done += end
		if err != nil {
			return done, err
		}
		if sent < used {
			t.stalls++
			return done, nil
		}
	}
	return done, nil
}

// build fills in frames from items and returns how many of each it used. t.trains says which
// items are in which frame; the one after the last says where the last ends.
func (t *transmitter) build(frames []TxFrame, items []transport.TxItem) (used, end int) {
	t.trains[0].from = 0
	i := 0
	for used < len(frames) && i < len(items) {
		it := &items[i]
		size := len(it.Head) + len(it.Data)
		if size > t.limit {
			i++
			continue
		}
		p := t.route(&it.Dst)
		if p == nil {
			i++
			continue
		}
		n, bytes := 1, size
		if t.segments > 1 && i+1 < len(items) {
			n, bytes = t.measure(items[i:], size)
		}
		t.fill(&frames[used], p, items[i:i+n], size, bytes)
		tr := &t.trains[used]
		tr.first, tr.items, tr.bytes = i, n, bytes
		used++
		i += n
		t.trains[used].from = i
	}
	return used, i
}

// measure returns how many of items, the first of size bytes, can form a train, and
// their bytes: same destination, same size but for a shorter last one.
func (t *transmitter) measure(items []transport.TxItem, size int) (n, bytes int) {
	limit := 1
	if size > 0 {
		limit = min(len(items), t.segments, max(1, t.maxTrain/size))
		if size > txCopyMax && t.gather > 0 {
			limit = min(limit, max(1, t.gather/2))
		}
	}
	dst := &items[0].Dst
	for n = 1; n < limit; n++ {
		it := &items[n]
		k := len(it.Head) + len(it.Data)
		if k != size || it.Dst != *dst {
			if 0 < k && k < size && it.Dst == *dst {
				return n + 1, n*size + k
			}
			break
		}
	}
	return n, n * size
}

// fill makes f the frame of items, which have size bytes each, but for the last, and bytes
// together.
func (t *transmitter) fill(f *TxFrame, p *path, items []transport.TxItem, size, bytes int) {
	codec := t.c.codec
	n := codec.Put(f.Mem, &p.header, p.hop.mac, uint16(items[0].Dst.Port), bytes)
	f.Header, f.L4 = n, codec.L4()
	f.Segment, f.Partial, f.Refused = 0, t.partial, false
	if len(items) > 1 {
		f.Segment = size
	}
	if size > txCopyMax && t.gather > 1 {
		f.Len = n
		for i := range items {
			it := &items[i]
			if len(it.Head) > 0 {
				f.Pieces = append(f.Pieces, it.Head)
			}
			if len(it.Data) > 0 {
				f.Pieces = append(f.Pieces, it.Data)
			}
		}
		return
	}
	mem := f.Mem
	for i := range items {
		it := &items[i]
		n += copy(mem[n:], it.Head)
		n += copy(mem[n:], it.Data)
	}
	f.Len = n
	if !t.partial {
		codec.Complete(mem[:n])
	}
}

// settle counts the frames that the device is done with, and notes in t.refused the
// trains that it refused. It returns how many.
func (t *transmitter) settle(frames []TxFrame) (refused int) {
	for i := range frames {
		tr := &t.trains[i]
		t.dropped += uint64(tr.first - tr.from)
		switch {
		case !frames[i].Refused:
			t.packets += uint64(tr.items)
			t.bytes += uint64(tr.bytes)
		case tr.items > 1:
			t.refused[refused] = i
			refused++
		default:
			t.dropped++
		}
	}
	return refused
}

// untrain sends the packets of trains that the device refused one by one. If that works,
// trains do not, on this link at least, and are not tried again. Packets for which the device
// has no room then are lost.
func (t *transmitter) untrain(items []transport.TxItem, refused int) {
	var again [txFrames]train
	for i, at := range t.refused[:refused] { // t.trains is used again below
		again[i] = t.trains[at]
	}
	segments, before := t.segments, t.packets
	t.segments = 1
	for _, tr := range again[:refused] {
		n, err := t.burst(items[tr.first : tr.first+tr.items])
		if lost := tr.items - n; lost > 0 {
			t.dropped += uint64(lost)
			if err == nil {
				t.stalls-- // the caller sees none
			}
		}
	}
	if t.packets == before {
		t.segments = segments
	}
}
