package message

import (
	"fmt"

	"github.com/userspace-rpc/erpc/kv/mica"
)

// Layout is a response to Info: the partition that answers, how many there are, and the address of
// each. On the wire: partition (2), partitions - 1 (2), mode (1), and for each partition the length
// of its address (1) and the address.
type Layout struct {
	Partition int
	Mode      mica.Mode
	Addrs     []string
}

// MaxLayout is how many partitions a Layout can have.
const MaxLayout = 1024

// Append appends the response. Addresses are at most 255 bytes long.
func (l *Layout) Append(b []byte) []byte {
	b = le.AppendUint16(append(b, byte(OK)), uint16(l.Partition))
	b = append(le.AppendUint16(b, uint16(len(l.Addrs)-1)), byte(l.Mode))
	for _, a := range l.Addrs {
		b = append(append(b, byte(len(a))), a...)
	}
	return b
}

// ParseLayout reads a response to Info. The error is ErrResponse.
func ParseLayout(b []byte) (l Layout, err error) {
	if b, err = open(b, 5); err != nil {
		return l, err
	}
	n := int(le.Uint16(b[2:])) + 1
	l = Layout{Partition: int(le.Uint16(b)), Mode: mica.Mode(b[4])}
	if n > MaxLayout || l.Partition >= n || l.Mode > mica.Store {
		return l, fmt.Errorf("%w: partition %d of %d, %v", ErrResponse, l.Partition, n, l.Mode)
	}
	b = b[5:]
	for range n {
		if len(b) < 1 || len(b) < 1+int(b[0]) {
			return l, fmt.Errorf("%w: %d addresses, want %d", ErrResponse, len(l.Addrs), n)
		}
		end := 1 + int(b[0])
		l.Addrs = append(l.Addrs, string(b[1:end]))
		b = b[end:]
	}
	if len(b) > 0 {
		return l, fmt.Errorf("%w: %d bytes after the addresses", ErrResponse, len(b))
	}
	return l, nil
}

// counters returns the fields of s that travel, in their order.
func counters(s *mica.Stats) []*uint64 {
	return []*uint64{&s.Items, &s.Bytes, &s.Capacity, &s.Index, &s.Memory, &s.Hits, &s.Misses,
		&s.Puts, &s.Deletes, &s.Expired, &s.Evictions, &s.IndexEvictions, &s.Moves, &s.Fulls,
		&s.IndexFulls, &s.Extra}
}

// AppendStats appends a response to Stats.
func AppendStats(b []byte, s mica.Stats) []byte {
	b = append(b, byte(OK))
	for _, c := range counters(&s) {
		b = le.AppendUint64(b, *c)
	}
	return append(b, flag(s.Huge))
}

// ParseStats reads a response to Stats. The error is ErrResponse.
func ParseStats(b []byte) (s mica.Stats, err error) {
	list := counters(&s)
	if b, err = open(b, 0); err != nil {
		return s, err
	}
	if len(b) != 8*len(list)+1 {
		return s, fmt.Errorf("%w: counters in %d bytes", ErrResponse, len(b))
	}
	for i, c := range list {
		*c = le.Uint64(b[8*i:])
	}
	s.Huge = b[8*len(list)] == 1
	return s, nil
}
