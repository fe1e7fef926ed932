// Package message has the requests and responses of a key-value server and its clients: views over
// bytes, every field checked. Numbers are little-endian.
//
//	type       request                                              response
//	Get        hash (8), key                                        flags (4), version (8), value
//	Write      hash (8), version (8), life (4), flags (4),          version (8)
//	           condition (1), key length (1), key, value
//	Delete     hash (8), version (8), key                           nothing
//	Increment  hash (8), delta (8), down (1), key                   value (8), version (8)
//	Touch      hash (8), life (4), key                              flags (4), version (8), value
//	MultiGet   entries: hash (8), key length (1), key               entries
//	Stats      nothing                                              counters (8 each)
//	Info       nothing                                              see Layout
//
// A response begins with a status (1), and what the table says follows OK alone. The entries of a
// response to MultiGet are those of the keys, in their order: a status (1), and after OK flags (4),
// version (8), the length of the value (4) and the value. Later means that the answer became too
// long: that key is to be asked for again.
//
// The hash is mica.Hash of the key, from which client and server know the partition. It has no
// secret, so a client can choose the partition of its keys, not their place in it. A life is in
// seconds from now, 0 for ever; so no clocks need agree. The version of a request is 0 where any
// will do.
//
// Malformed requests, and those at another partition than that of their hash, are answered by
// errors of the RPC.
//
// # Map
//
//	owns       the bytes of requests and answers
//	called by  kv/server and kv/client
//	never      a byte is used that was not checked
package message
