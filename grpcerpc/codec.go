package grpcerpc

import (
	"bytes"
	"io"
	"math"
	"reflect"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto" // registers the codec for protobuf
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Limits of messages, as gRPC has them.
const (
	defaultMaxRecv    = 4 << 20
	defaultMaxSend    = math.MaxInt32
	defaultMaxHeaders = 16 << 20
)

// codecV1 is a codec of the older kind as one of the newer kind.
type codecV1 struct{ encoding.Codec }

func (c codecV1) Marshal(v any) (mem.BufferSlice, error) {
	b, err := c.Codec.Marshal(v)
	if err != nil {
		return nil, err
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

func (c codecV1) Unmarshal(data mem.BufferSlice, v any) error {
	return c.Codec.Unmarshal(data.Materialize(), v)
}

// codecFor returns the codec of a content subtype; "" is protobuf. It returns nil if none is
// registered.
func codecFor(subtype string) encoding.CodecV2 {
	if subtype == "" {
		subtype = protocodec.Name
	}
	if c := encoding.GetCodecV2(subtype); c != nil {
		return c
	}
	if c := encoding.GetCodec(subtype); c != nil {
		return codecV1{c}
	}
	return nil
}

// isProto reports whether a codec is gRPC's own for protobuf. Messages go around it then, with one
// copy less. It is told by its package: what is registered under its name may be somebody else's,
// before this package begins and at any time.
func isProto(c encoding.CodecV2) bool {
	t := reflect.TypeOf(c)
	return t != nil && t.Kind() == reflect.Pointer && t.Elem().PkgPath() == protoPackage
}

// protoPackage is the package of gRPC's own codec for protobuf.
const protoPackage = "google.golang.org/grpc/encoding/proto"

// appendMessage appends v to b, encoded by codec. A nil message is empty.
func appendMessage(b []byte, codec encoding.CodecV2, v any) ([]byte, error) {
	if v == nil {
		return b, nil
	}
	if data, ok := v.(raw); ok {
		return append(b, data...), nil
	}
	if _, ok := v.(*grpc.PreparedMsg); ok {
		return b, status.Error(codes.Internal, "grpcerpc: PreparedMsg is not supported")
	}
	if m, ok := v.(proto.Message); ok && isProto(codec) {
		size := proto.Size(m)
		out, err := appendProto(grown(b, size), m, size)
		if err != nil {
			return b, status.Errorf(codes.Internal, "grpc: error while marshaling: %v", err)
		}
		return out, nil
	}
	data, err := codec.Marshal(v)
	if err != nil {
		return b, status.Errorf(codes.Internal, "grpc: error while marshaling: %v", err)
	}
	defer data.Free()
	for _, part := range data {
		b = append(b, part.ReadOnlyData()...)
	}
	return b, nil
}

// sizeHint guesses how many bytes a message takes.
func sizeHint(v any) int {
	if m, ok := v.(proto.Message); ok {
		return proto.Size(m)
	}
	return 0
}

// decodeMessage decodes data into v, which keeps no part of it if keep is false.
func decodeMessage(data []byte, codec encoding.CodecV2, v any) error {
	var err error
	if m, ok := v.(proto.Message); ok && isProto(codec) {
		err = decodeProto(data, m)
	} else {
		// A codec may keep what it gets.
		err = codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(bytes.Clone(data))}, v)
	}
	if err != nil {
		return status.Errorf(codes.Internal, "grpc: failed to unmarshal the received message: %v", err)
	}
	return nil
}

// compress appends data, compressed, to b.
func compress(b []byte, c encoding.Compressor, data []byte) ([]byte, error) {
	out := bytes.NewBuffer(b)
	w, err := c.Compress(out)
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return b, status.Errorf(codes.Internal, "grpc: error while compressing: %v", err)
	}
	return out.Bytes(), nil
}

// decompress returns data without its compression: at most most bytes.
func decompress(c encoding.Compressor, data []byte, most int) ([]byte, error) {
	r, err := c.Decompress(bytes.NewReader(data))
	if err != nil {
		return nil, status.Errorf(codes.Internal, "grpc: failed to decompress the message: %v", err)
	}
	var out bytes.Buffer
	limit := int64(most)
	if limit < math.MaxInt64 {
		limit++
	}
	n, err := io.Copy(&out, io.LimitReader(r, limit))
	if closer, ok := r.(io.Closer); ok {
		_ = closer.Close()
	}
	if err != nil {
		return nil, status.Errorf(codes.Internal, "grpc: failed to decompress the message: %v", err)
	}
	if n > int64(most) {
		return nil, status.Errorf(codes.ResourceExhausted,
			"grpc: message after decompression larger than max %d", most)
	}
	return out.Bytes(), nil
}

// tooLarge is the error of a received message beyond its limit.
func tooLarge(size, most int) error {
	return status.Errorf(codes.ResourceExhausted,
		"grpc: received message larger than max (%d vs. %d)", size, most)
}

// tooLargeToSend is the error of a message that its sender must not send.
func tooLargeToSend(size, most int) error {
	return status.Errorf(codes.ResourceExhausted,
		"trying to send message larger than max (%d vs. %d)", size, most)
}

// buffers has memory for messages under way, and largeBuffers for those of more than maxKept bytes.
var buffers, largeBuffers = newBuffers(), newBuffers()

func newBuffers() *sync.Pool { return &sync.Pool{New: func() any { return new([]byte) }} }

// The largest buffers that go back to buffers, and to largeBuffers.
const (
	maxKept      = 256 << 10
	maxLargeKept = 4<<20 + 4<<10
)

func getBuffer() *[]byte { return buffers.Get().(*[]byte) }

func putBuffer(b *[]byte) {
	pool := buffers
	switch n := cap(*b); {
	case n > maxLargeKept:
		return
	case n > maxKept:
		pool = largeBuffers
	}
	*b = (*b)[:0]
	pool.Put(b)
}

// grown returns b with room for n more bytes. If that makes it large it is one of largeBuffers,
// which putBuffer takes back.
func grown(b []byte, n int) []byte {
	size := len(b) + n
	if size <= cap(b) || size <= maxKept || size > maxLargeKept {
		return slices.Grow(b, n)
	}
	l := *largeBuffers.Get().(*[]byte)
	if cap(l) < size {
		l = make([]byte, 0, size)
	}
	return append(l[:0], b...)
}
