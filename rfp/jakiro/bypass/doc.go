// Package bypass is the baseline that needs no processor of the server for GETs, after Pilaf (RFP
// section II.C; HERD section 2.3): clients look keys up in a cuckoo hash table by READs, and check
// what they have read. PUTs and deletions are calls of package rfp.
//
// # Map
//
//	owns       a table that clients read by themselves
//	called by  labs/cmd/erpc-rfp, for comparison
//	never      a reader takes an item that was half written
//
// # Table
//
// A key has three places of 32 bytes each; 3 of 4 are in use at most. An entry names an item, of
// the key and the value, and has two checksums (CRC-32C): one of the item, one of itself.
//
//	word 0   hash of the key, never 0
//	word 1   number of the item (32 bits), size of the key (8), size of the value (24)
//	word 2   checksum of the item
//	word 3   checksum of words 0 to 2
//
// The server writes an item before the entry that names it, and uses an item's memory again as late
// as it can. An entry that makes room for another is copied to its new place before the old one is
// overwritten.
//
// # A GET
//
// The client READs one place after the other until one has the hash, on average 1.6 of them in a
// table that is full to 3 quarters, and then the item. An item with a wrong checksum was read while
// the server wrote it, and is read again. An entry may move between two READs, so a key that was
// not found is asked for by a call; so is one that changes all the time.
package bypass
