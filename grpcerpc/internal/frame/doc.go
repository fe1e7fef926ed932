// Package frame is the format of the messages that a grpcerpc client and server exchange as
// requests and responses of erpc. Numbers are unsigned varints (package encoding/binary), texts and
// lists begin with their length. Package grpcerpc says what the messages mean.
//
// Nothing here trusts what it reads: every decoder returns ErrFormat for what it cannot read, keeps
// no slice of its input but where it says so, and makes at most a small multiple of the input's
// size.
//
// # Map
//
//	owns       the bytes of messages of grpcerpc
//	called by  package grpcerpc
//	never      a byte is used that was not checked
package frame
