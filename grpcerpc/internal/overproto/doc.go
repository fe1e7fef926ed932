// Package overproto registers a codec in place of grpc's own for protobuf, as programs with
// generated marshalling do. Tests import it.
//
// # Map
//
//	owns       a codec that counts what it does
//	called by  tests
//	never      it is part of a program
package overproto

import (
	"sync/atomic"

	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto" // whose codec is registered before
	"google.golang.org/grpc/mem"
)

// Encoded and Decoded count the messages that went through the codec.
var Encoded, Decoded atomic.Int64

var own = encoding.GetCodecV2(protocodec.Name)

type counting struct{}

func init() { encoding.RegisterCodecV2(counting{}) }

func (counting) Name() string { return protocodec.Name }

func (counting) Marshal(v any) (mem.BufferSlice, error) {
	Encoded.Add(1)
	return own.Marshal(v)
}

func (counting) Unmarshal(data mem.BufferSlice, v any) error {
	Decoded.Add(1)
	return own.Unmarshal(data, v)
}
