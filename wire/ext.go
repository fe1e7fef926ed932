package wire

import (
	"encoding/binary"
	"errors"
)

// extHeader is the size of what stands before the value of an extension, bytes.
const extHeader = 4

// ErrExtension means that the extensions of a body do not fit it.
var ErrExtension = errors.New("wire: an extension is longer than its packet")

// Extension follows the least body of a Connect, an Accept, or a server's Disconnect or Drain. A
// receiver skips those whose type it does not know. An extension that both sides must know has a
// bit in [Features].
//
//	0 type u16 · 2 length u16, bytes · 4 value
type Extension struct {
	Type  uint16
	Value []byte // aliases the packet
}

// ExtIndex is the type of the extension with the sender's index for what is sealed to it: u32, as
// it stands in sealed datagrams without the key phase.
const ExtIndex = 2

// AppendExtension appends an extension to b. Its value has at most 65535 bytes.
func AppendExtension(b []byte, e Extension) []byte {
	b = binary.LittleEndian.AppendUint16(b, e.Type)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(e.Value)))
	return append(b, e.Value...)
}

// NextExtension returns the first extension in b, and what is behind it. B is not empty. The
// error is ErrExtension.
func NextExtension(b []byte) (e Extension, rest []byte, err error) {
	if len(b) < extHeader {
		return Extension{}, nil, ErrExtension
	}
	end := extHeader + int(binary.LittleEndian.Uint16(b[2:]))
	if end > len(b) {
		return Extension{}, nil, ErrExtension
	}
	return Extension{Type: binary.LittleEndian.Uint16(b), Value: b[extHeader:end:end]}, b[end:], nil
}

// CheckExtensions reports with ErrExtension if the extensions in b do not fill it exactly.
func CheckExtensions(b []byte) (err error) {
	for len(b) > 0 && err == nil {
		_, b, err = NextExtension(b)
	}
	return err
}
