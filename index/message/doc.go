// Package message has the requests and responses of an index server and its clients: views over
// bytes, every field checked. Numbers are little-endian.
//
//	type    request                       response
//	Get     key                           value, or nothing if the key is not there
//	Put     value (8), key                the value before, or nothing
//	Absent  value (8), key                the value that is there, or nothing: then it is stored
//	Delete  key                           the value before, or nothing
//	Sum     count (4), after (1), key     flags (1), count (4), sum (8), and the last key if More
//	Scan    count (4), after (1), key     flags (1), entries
//	Count   nothing                       keys (8)
//
// and for a map of values of any length:
//
//	GetBytes     key                            1 and the value, or nothing if it is not there
//	PutBytes     length of key (1), key, value  1 and the value before, or nothing
//	AbsentBytes  length of key (1), key, value  1 and the value that is there, or nothing
//	DeleteBytes  key                            1 and the value before, or nothing
//	ScanBytes    as Scan                        flags (1), entries with the length of a value (4)
//
// An entry is the length of its key (1), the key, and its value (8). Sum and Scan begin behind
// their key if after is 1, and with it if after is 0. A server answers with at most MaxSum and
// MaxEntries keys, whatever count is. The flag More says that the count is not reached and there
// may be further keys; a client that wants them asks again, after the last key.
//
// # Map
//
//	owns       the bytes of requests and answers
//	called by  index/server and index/client
//	never      a byte is used that was not checked
package message
