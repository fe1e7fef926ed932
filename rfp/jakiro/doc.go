// Package jakiro is RFP's key-value store: partitions of package kv/mica, each behind a server of
// package rfp.
//
// # Map
//
//	owns       handlers on partitions of kv/mica
//	called by  labs/cmd/erpc-rfp and internal/paperlab/rfplab
//	never      a key is at a partition that is not its own
//
// # Requests
//
//	type   request                      result
//	Get    key                          1, value; or 0
//	Put    key length (8 bits), key, value   1
//	Delete key                          1; or 0
//
// Keys belong to servers by [mica.PartitionOf] their hash; a client has a link to each.
package jakiro
