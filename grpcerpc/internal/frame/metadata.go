package frame

import (
	"encoding/binary"
	"strings"
)

// maxPairs is how many pairs metadata may have: as many as fit into 16 MiB, gRPC's limit, by the
// way MDSize counts. A pair of six bytes takes 114 in memory, so more pairs are bad input, whatever
// limit a server sets.
const maxPairs = 16 << 20 / pairOverhead

// pairOverhead is the number of bytes that HTTP/2 adds to each header field (RFC 9113, 6.5.2).
const pairOverhead = 32

// MDSize returns the size of metadata as gRPC's limits count it, in bytes.
func MDSize(md map[string][]string) (n int) {
	for k, vals := range md {
		for _, v := range vals {
			n += len(k) + len(v) + pairOverhead
		}
	}
	return n
}

// HeaderSize returns the size of a call's header as gRPC's limits count it, in bytes: its metadata,
// and the fields that gRPC sends with it over HTTP/2, but for those of some calls alone.
func HeaderSize(method, authority, userAgent string, md map[string][]string) int {
	const fields = ":method" + "POST" + ":scheme" + "http" + ":path" + ":authority" +
		"content-type" + "application/grpc" + "user-agent" + "te" + "trailers"
	return len(fields) + 7*pairOverhead + len(method) + len(authority) + len(userAgent) + MDSize(md)
}

// AppendMD appends metadata, but for the keys that are gRPC's own.
func AppendMD(b []byte, md map[string][]string) []byte {
	n := 0
	for k, vals := range md {
		if !Reserved(k) {
			n += len(vals)
		}
	}
	b = binary.AppendUvarint(b, uint64(n))
	for k, vals := range md {
		if Reserved(k) {
			continue
		}
		for _, v := range vals {
			b = AppendBytes(AppendBytes(b, k), v)
		}
	}
	return b
}

// Reserved reports whether a key of metadata is gRPC's own; such keys do not travel.
func Reserved(key string) bool {
	switch key {
	case "", "content-type", "user-agent", "grpc-message-type", "grpc-encoding", "grpc-message",
		"grpc-status", "grpc-timeout", "te":
		return true
	}
	return key[0] == ':'
}

// MD reads metadata. Keys that gRPC does not allow are bad input; values are raw bytes.
func (r *Reader) MD() map[string][]string {
	n := r.Number()
	if n > uint64(len(r.rest))/2 || n > maxPairs { // a pair has two bytes at least
		r.fail()
		return nil
	}
	if n == 0 {
		return nil
	}
	md := make(map[string][]string, min(n, 16))
	for range n {
		k, v := r.Bytes(), r.Bytes()
		if r.bad || !ValidKey(k) || Reserved(string(k)) {
			r.fail()
			return nil
		}
		if vals, ok := md[string(k)]; ok {
			md[string(k)] = append(vals, string(v))
		} else {
			md[string(k)] = []string{string(v)}
		}
	}
	return md
}

// ValidKey reports whether a key of metadata has gRPC's characters only: 0-9 a-z - _ and the dot.
func ValidKey[T []byte | string](key T) bool {
	for i := range len(key) {
		switch c := key[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return len(key) > 0
}

// ValidValue reports whether a value may stand for a key: any bytes for keys that end in -bin,
// printable ASCII for others.
func ValidValue(key, value string) bool {
	if strings.HasSuffix(key, "-bin") {
		return true
	}
	for i := range len(value) {
		if value[i] < ' ' || value[i] > '~' {
			return false
		}
	}
	return true
}
