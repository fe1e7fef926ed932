package otel

import (
	"encoding/binary"
	"errors"
	"slices"
)

// maxFront bounds the context that travels with a request, in bytes.
const maxFront = 8 << 10

var errFront = errors.New("otel: the request has no trace context in front: see Tracer.Handle")

// carrier is the context of a request, as keys and values in turn. It implements
// propagation.TextMapCarrier.
type carrier []string

// Get implements propagation.TextMapCarrier.
func (c *carrier) Get(key string) string {
	for i := 0; i+1 < len(*c); i += 2 {
		if (*c)[i] == key {
			return (*c)[i+1]
		}
	}
	return ""
}

// Set implements propagation.TextMapCarrier.
func (c *carrier) Set(key, value string) {
	for i := 0; i+1 < len(*c); i += 2 {
		if (*c)[i] == key {
			(*c)[i+1] = value
			return
		}
	}
	*c = append(*c, key, value)
}

// Keys implements propagation.TextMapCarrier.
func (c *carrier) Keys() (keys []string) {
	for i := 0; i+1 < len(*c); i += 2 {
		keys = append(keys, (*c)[i])
	}
	return keys
}

// wrap returns a request with the context in front. A context of more than maxFront bytes stays at
// home.
func (c *carrier) wrap(request []byte) []byte {
	var front []byte
	for _, s := range *c {
		front = binary.AppendUvarint(front, uint64(len(s)))
		front = append(front, s...)
	}
	if len(front) > maxFront {
		front = nil
	}
	b := make([]byte, 0, binary.MaxVarintLen16+len(front)+len(request))
	b = binary.AppendUvarint(b, uint64(len(front)))
	return slices.Concat(b, front, request)
}

// unwrap takes the context from the front of a request. Payload is a part of request.
func unwrap(request []byte) (c carrier, payload []byte, err error) {
	front, payload, ok := next(request)
	if !ok || len(front) > maxFront {
		return nil, nil, errFront
	}
	for len(front) > 0 {
		var s []byte
		if s, front, ok = next(front); !ok {
			return nil, nil, errFront
		}
		c = append(c, string(s))
	}
	if len(c)%2 != 0 {
		return nil, nil, errFront
	}
	return c, payload, nil
}

// next takes bytes and their length from the front of b.
func next(b []byte) (s, rest []byte, ok bool) {
	n, k := binary.Uvarint(b)
	if k <= 0 || n > uint64(len(b)-k) {
		return nil, nil, false
	}
	end := k + int(n)
	return b[k:end:end], b[end:], true
}
