package grpcerpc

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/userspace-rpc/erpc/erpc"
)

// Package proto copies a field of bytes in one go. For some MiB that takes a processor from event
// loops for milliseconds, and small calls wait. So large fields of large messages are copied here,
// by erpc.CopyLarge, and package proto has the rest.
const (
	largeProto = 256 << 10 // bytes of the least such message
	largeField = 128 << 10 // bytes of the least such field
	maxLarge   = 4         // fields of a message
	maxNesting = 4         // messages in messages that are looked into
)

// appendProto appends a message of size bytes, which proto.Size has just returned.
func appendProto(b []byte, m proto.Message, size int) ([]byte, error) {
	if size < largeProto {
		return proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, m)
	}
	if err := proto.CheckInitialized(m); err != nil {
		return b, err
	}
	return appendLarge(b, m.ProtoReflect(), 0)
}

// appendLarge appends a message, its large fields behind the others.
func appendLarge(b []byte, m protoreflect.Message, depth int) (_ []byte, err error) {
	var large []protoreflect.FieldDescriptor
	rest := m.New()
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if len(large) < maxLarge && splits(fd, depth) && isLarge(fd, v) {
			large = append(large, fd)
		} else {
			rest.Set(fd, v)
		}
		return true
	})
	partial := proto.MarshalOptions{AllowPartial: true}
	if len(large) == 0 {
		return partial.MarshalAppend(b, m.Interface())
	}
	rest.SetUnknown(m.GetUnknown())
	if b, err = partial.MarshalAppend(b, rest.Interface()); err != nil {
		return b, err
	}
	for _, fd := range large {
		b = protowire.AppendTag(b, fd.Number(), protowire.BytesType)
		if v := m.Get(fd); fd.Kind() == protoreflect.BytesKind {
			b = protowire.AppendVarint(b, uint64(len(v.Bytes())))
			b = appendCopy(b, v.Bytes())
		} else {
			b = protowire.AppendVarint(b, uint64(proto.Size(v.Message().Interface())))
			if b, err = appendLarge(b, v.Message(), depth+1); err != nil {
				return b, err
			}
		}
	}
	return b, nil
}

// splits reports whether a field may be taken out of its message.
func splits(fd protoreflect.FieldDescriptor, depth int) bool {
	return fd != nil && !fd.IsExtension() && fd.Cardinality() != protoreflect.Repeated &&
		(fd.Kind() == protoreflect.BytesKind ||
			fd.Kind() == protoreflect.MessageKind && depth < maxNesting)
}

// isLarge reports whether a field that splits is worth it.
func isLarge(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
	if fd.Kind() == protoreflect.BytesKind {
		return len(v.Bytes()) >= largeField
	}
	return proto.Size(v.Message().Interface()) >= largeField
}

// appendCopy is append for many bytes.
func appendCopy(b, data []byte) []byte {
	if cap(b)-len(b) < len(data) {
		return append(b, data...) // the message has changed since its size was asked for
	}
	at := len(b)
	b = b[:at+len(data)]
	erpc.CopyLarge(b[at:], data)
	return b
}

// decodeProto is proto.Unmarshal.
func decodeProto(data []byte, m proto.Message) error {
	if len(data) < largeProto {
		return proto.Unmarshal(data, m)
	}
	proto.Reset(m)
	if err := decodeLarge(data, m.ProtoReflect(), 0); err != nil {
		return err
	}
	return proto.CheckInitialized(m)
}

// largePart is a large field in an encoded message.
type largePart struct {
	fd       protoreflect.FieldDescriptor
	from, to int // with its tag
	value    []byte
}

// decodeLarge merges an encoded message into m.
func decodeLarge(data []byte, m protoreflect.Message, depth int) error {
	partial := proto.UnmarshalOptions{Merge: true, AllowPartial: true}
	at, large := 0, largeParts(data, m.Descriptor().Fields(), depth)
	for _, p := range large {
		if err := partial.Unmarshal(data[at:p.from], m.Interface()); err != nil {
			return err
		}
		if at = p.to; p.fd.Kind() == protoreflect.BytesKind {
			m.Set(p.fd, protoreflect.ValueOfBytes(erpc.CloneLarge(p.value)))
		} else if err := decodeLarge(p.value, m.Mutable(p.fd).Message(), depth+1); err != nil {
			return err
		}
	}
	return partial.Unmarshal(data[at:], m.Interface())
}

// largeParts returns the large fields of an encoded message, in their order. Of a message that
// cannot be read it returns those before what cannot.
func largeParts(data []byte, fields protoreflect.FieldDescriptors, depth int) (list []largePart) {
	for at := 0; at < len(data) && len(list) < maxLarge; {
		num, typ, n := protowire.ConsumeTag(data[at:])
		if n < 0 {
			return list
		}
		size := protowire.ConsumeFieldValue(num, typ, data[at+n:])
		if size < 0 {
			return list
		}
		if size >= largeField && typ == protowire.BytesType {
			if fd := fields.ByNumber(num); splits(fd, depth) {
				value, _ := protowire.ConsumeBytes(data[at+n:])
				list = append(list, largePart{fd, at, at + n + size, value})
			}
		}
		at += n + size
	}
	return list
}
