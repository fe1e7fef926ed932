package wire

import "encoding/binary"

// Where two endpoints make keys by a handshake, the bytes of the handshake are a stream in each
// direction. It begins in a chunk of the client's Connect, and goes on in OpCrypto packets.

// Crypto is the body of OpCrypto. Part of a stream follows it.
//
//	0 nonce u64 · 8 offset u32 · 12 ack u32
type Crypto struct {
	Nonce  uint64 // of the Connect
	Offset uint32 // of what follows, in the sender's stream, bytes
	Ack    uint32 // bytes of the receiver's stream that have come
}

// Put writes the body to b, which holds at least CryptoSize bytes.
func (c *Crypto) Put(b []byte) {
	p := b[:CryptoSize]
	binary.LittleEndian.PutUint64(p[0:], c.Nonce)
	binary.LittleEndian.PutUint32(p[8:], c.Offset)
	binary.LittleEndian.PutUint32(p[12:], c.Ack)
}

// Parse reads the body from b, which holds at least CryptoSize bytes.
func (c *Crypto) Parse(b []byte) {
	p := b[:CryptoSize]
	c.Nonce = binary.LittleEndian.Uint64(p[0:])
	c.Offset = binary.LittleEndian.Uint32(p[8:])
	c.Ack = binary.LittleEndian.Uint32(p[12:])
}

// ChunkKind says what a chunk is.
type ChunkKind uint8

// The kinds of chunks.
const (
	ChunkNone   ChunkKind = 0 // padding
	ChunkCrypto ChunkKind = 1 // the beginning of a client's stream
)

// chunkHead is the size of what stands before a chunk's value, bytes.
const chunkHead = 4

// PutChunk writes a chunk to the beginning of the padding of a Connect. Its value has
// at most as many bytes as [ChunkRoom] says.
//
//	0 kind u8 · 1 zero u8 · 2 length u16, bytes · 4 value
func PutChunk(padding []byte, kind ChunkKind, value []byte) {
	padding[0], padding[1] = byte(kind), 0
	binary.LittleEndian.PutUint16(padding[2:], uint16(len(value)))
	copy(padding[chunkHead:], value)
}

// ChunkRoom returns the size of the largest value for which a padding has room; below 0 if there is
// none for a chunk.
func ChunkRoom(padding []byte) int { return min(len(padding), 1<<16) - chunkHead }

// Chunk returns the chunk in a padding: ChunkNone if there is none that fits.
func Chunk(padding []byte) (kind ChunkKind, value []byte) {
	if len(padding) < chunkHead {
		return ChunkNone, nil
	}
	end := chunkHead + int(binary.LittleEndian.Uint16(padding[2:]))
	if end > len(padding) {
		return ChunkNone, nil
	}
	return ChunkKind(padding[0]), padding[chunkHead:end:end]
}
