package grpcerpc

import (
	"bytes"
	"math/rand/v2"
	"testing"

	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func filled(n int) []byte { return bytes.Repeat([]byte("0123456789abcde"), n/15+1)[:n] }

// largeMessages have large fields in all places where they are taken out, and in others.
func largeMessages(t *testing.T) []proto.Message {
	body := func(n int) *testpb.Payload { return &testpb.Payload{Body: filled(n), Type: 3} }
	any, err := anypb.New(wrapperspb.Bytes(filled(300 << 10)))
	if err != nil {
		t.Fatal(err)
	}
	unknown := &testpb.SimpleRequest{Payload: body(400 << 10), FillUsername: true}
	unknown.ProtoReflect().SetUnknown(protowire.AppendBytes(
		protowire.AppendTag(nil, 1000, protowire.BytesType), filled(200<<10)))
	list := &structpb.ListValue{}
	for range 5 {
		list.Values = append(list.Values, structpb.NewStringValue(string(filled(100<<10))))
	}
	nested := structpb.NewStringValue(string(filled(300 << 10)))
	for range 2 * maxNesting {
		nested = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{nested}})
	}
	return []proto.Message{
		&testpb.SimpleRequest{}, body(10), body(largeProto - 10), body(largeProto), body(1 << 20),
		&testpb.SimpleRequest{Payload: body(300 << 10), ResponseSize: 7,
			ResponseStatus: &testpb.EchoStatus{Code: 2, Message: string(filled(200 << 10))}},
		&testpb.StreamingOutputCallResponse{Payload: body(12 << 20)},
		any, wrapperspb.Bytes(filled(2 << 20)), unknown, structpb.NewListValue(list), nested,
		&descriptorpb.UninterpretedOption{StringValue: filled(300 << 10),
			AggregateValue: proto.String("a")},
	}
}

// TestLargeProto: package proto reads what appendProto writes, and the other way round.
func TestLargeProto(t *testing.T) {
	for i, m := range largeMessages(t) {
		size := proto.Size(m)
		b, err := appendProto(append(make([]byte, 0, size+3), "abc"...), m, size)
		if err != nil || len(b) != 3+size || string(b[:3]) != "abc" {
			t.Fatalf("message %d: %d bytes of %d, %v", i, len(b), size, err)
		}
		plain, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			how  string
			data []byte
			read func([]byte, proto.Message) error
		}{
			{"proto reads", b[3:], proto.Unmarshal},
			{"decodeProto reads", b[3:], decodeProto},
			{"decodeProto reads what proto wrote", plain, decodeProto},
		} {
			got := m.ProtoReflect().New().Interface()
			if err := c.read(c.data, got); err != nil || !proto.Equal(got, m) {
				t.Errorf("message %d, %s: %v, %d bytes of %d", i, c.how, err, proto.Size(got), size)
			}
		}
	}
}

// TestLargeProtoRequired: required fields are missed as package proto misses them.
func TestLargeProtoRequired(t *testing.T) {
	m := &descriptorpb.UninterpretedOption{StringValue: filled(300 << 10),
		Name: []*descriptorpb.UninterpretedOption_NamePart{{}}}
	if _, err := appendProto(nil, m, proto.Size(m)); err == nil {
		t.Error("a message without a required field is written")
	}
	b, err := proto.MarshalOptions{AllowPartial: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if decodeProto(b, new(descriptorpb.UninterpretedOption)) == nil {
		t.Error("a message without a required field is read")
	}
}

// TestLargeProtoOwn: a decoded message has memory of its own.
func TestLargeProtoOwn(t *testing.T) {
	b, err := proto.Marshal(&testpb.Payload{Body: filled(1 << 20)})
	if err != nil {
		t.Fatal(err)
	}
	var m testpb.Payload
	if err := decodeProto(b, &m); err != nil {
		t.Fatal(err)
	}
	if clear(b); !bytes.Equal(m.Body, filled(1<<20)) {
		t.Error("the message has changed with the bytes that it came in")
	}
}

// TestLargeProtoGrown: a message that grows after its size was asked for is written whole, or not
// at all, and nothing beyond its room.
func TestLargeProtoGrown(t *testing.T) {
	m := &testpb.Payload{Body: filled(300 << 10)}
	size := proto.Size(m)
	m.Body = filled(500 << 10)
	room := make([]byte, size+100)
	b, err := appendProto(room[:0:size], m, size)
	if err == nil && len(b) != proto.Size(m) {
		t.Errorf("%d bytes of %d", len(b), proto.Size(m))
	}
	if !bytes.Equal(room[size:], make([]byte, 100)) {
		t.Error("bytes behind the room were written")
	}
}

// FuzzLargeProto: decodeProto reads what package proto reads, and as it does. Seed chooses how the
// parts of the input are put together.
func FuzzLargeProto(f *testing.F) {
	f.Add([]byte("\x0a\x03abc\x10\x01"), uint64(1), 200<<10)
	f.Add([]byte("\x12\x02\x08\x01"), uint64(2), 300<<10)
	f.Add([]byte{0x1a, 0xff, 0xff, 0xff, 0xff, 0x0f}, uint64(3), 300<<10)
	f.Fuzz(func(t *testing.T, part []byte, seed uint64, size int) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var b []byte
		for range 1 + rng.IntN(8) {
			if rng.IntN(3) == 0 {
				b = append(b, part...)
				continue
			}
			inner := filled(max(size, 0) % (600 << 10))
			if rng.IntN(2) == 0 { // a Payload in one of the request's fields
				body := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), inner)
				inner = append(body, part...)
			}
			b = protowire.AppendTag(b, protowire.Number(1+rng.IntN(8)), protowire.BytesType)
			b = protowire.AppendBytes(b, inner)
		}
		for _, want := range []proto.Message{new(testpb.SimpleRequest), new(testpb.Payload),
			new(structpb.Value), new(descriptorpb.UninterpretedOption)} {
			got := want.ProtoReflect().New().Interface()
			wantErr, err := proto.Unmarshal(b, want), decodeProto(b, got)
			if (wantErr == nil) != (err == nil) || err == nil && !proto.Equal(got, want) {
				t.Fatalf("%T: %v, want %v, equal %v", want, err, wantErr, proto.Equal(got, want))
			}
		}
	})
}
