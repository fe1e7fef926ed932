// Package snapshot writes an index.Map to a file and reads it back.
//
// A snapshot is a scan: it has every key that was there from its begin to its end, and the map may
// be written to meanwhile. It is not a cut at one moment. A map that starts from it may lack
// the changes made after it began.
//
// The file is a magic number, the time of the snapshot (8 bytes, ns since 1970), and blocks. A
// block is the length of its entries (4 bytes), their CRC-32C (4 bytes) and the entries, up to 64
// KiB: the length of a key (1), the key, its value (8). The last block is one without entries, and
// then come the number of keys (8) and the CRC-32C of time and number (4). Numbers are
// little-endian. Keys ascend.
//
// A file that ends early or is damaged gives [ErrCut] or [ErrDamaged] and no map.
//
// # Map
//
//	owns       the format of a file
//	called by  cmd/erpc-index and applications
//	never      a damaged file gives a map
package snapshot
