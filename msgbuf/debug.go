package msgbuf

import "github.com/userspace-rpc/erpc/wire"

// poisonByte fills freed messages in invariant builds.
const poisonByte = 0xDB

// poison overwrites header and message of a buffer that is being freed, so that a
// late reader sees rubbish. Only in invariant builds.
func (b *Buffer) poison() {
	m := b.mem[:wire.HeaderSize+b.size]
	m[0] = poisonByte
	for i := 1; i < len(m); i *= 2 { // copy is fast under the race detector too
		copy(m[i:], m[:i])
	}
}

// renew moves the chunk of a free buffer to a new Buffer and leaves the old one
// without memory for ever, so that its old pointers can always be told from
// the new one. Only in invariant builds.
func (b *Buffer) renew() *Buffer {
	fresh := *b
	b.retire()
	return &fresh
}
