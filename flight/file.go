package flight

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// magic begins a file of dumps, each a JSON object after it.
const magic = "erpc flight 1\n"

// ErrFormat means that a file has no dumps, or that they are damaged.
var ErrFormat = errors.New("flight: no dump of a flight recorder")

// maxEntries bounds what Read takes of one dump: more than a ring has.
const maxEntries = 1 << 20

// Write writes dumps to a file.
func Write(w io.Writer, dumps ...*Dump) error {
	b := bufio.NewWriter(w)
	_, _ = b.WriteString(magic) // Flush has the error
	enc := json.NewEncoder(b)
	for _, d := range dumps {
		if err := enc.Encode(d); err != nil {
			return fmt.Errorf("flight: %w", err)
		}
	}
	return b.Flush()
}

// Read reads what Write has written. The error matches ErrFormat, or is that of r.
func Read(r io.Reader) (dumps []*Dump, err error) {
	b := bufio.NewReader(r)
	begin := make([]byte, len(magic))
	if _, err := io.ReadFull(b, begin); err != nil || string(begin) != magic {
		return nil, ErrFormat
	}
	for dec := json.NewDecoder(b); ; {
		d := new(Dump)
		if err := dec.Decode(d); err == io.EOF {
			return dumps, nil
		} else if err != nil {
			return dumps, fmt.Errorf("%w: %w", ErrFormat, err)
		}
		if len(d.Entries) > maxEntries {
			return dumps, fmt.Errorf("%w: %d entries", ErrFormat, len(d.Entries))
		}
		dumps = append(dumps, d)
	}
}
