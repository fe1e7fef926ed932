package herd

import (
	"errors"
	"fmt"

	"github.com/userspace-rpc/erpc/kv/message"
)

// Refusal says why a request was not run: the kind of its answer.
type Refusal uint8

// The refusals.
const (
	Answered     Refusal = iota // none
	BadLength                   // a length that does not fit a slot
	BadKind                     // no such operation
	BadRequest                  // a body that is none of its kind
	BadPartition                // the key is of another partition
	BadHash                     // the hash is not that of the key
	TooLong                     // the answer does not fit a slot
	refusals
)

// Errors of refusals, beside those of package message.
var (
	ErrKind    = errors.New("herd: no such operation")
	ErrTooLong = errors.New("herd: the answer does not fit a slot")
)

var refusalErrors = [refusals]error{BadLength: ErrLength, BadKind: ErrKind,
	BadRequest: message.ErrRequest, BadPartition: message.ErrPartition, BadHash: message.ErrHash,
	TooLong: ErrTooLong}

// Err returns the error of a refusal, nil for Answered.
func (r Refusal) Err() error {
	if r >= refusals {
		return fmt.Errorf("%w: refusal %d", message.ErrResponse, r)
	}
	return refusalErrors[r]
}

// refusalOf returns the refusal of an error of package message.
func refusalOf(err error) Refusal {
	for r, e := range refusalErrors {
		if e != nil && errors.Is(err, e) {
			return Refusal(r)
		}
	}
	return BadRequest
}

// Stats counts what a Part did.
type Stats struct {
	Sweeps   uint64 // that found something
	Requests uint64 // run, refused ones included
	Repeats  uint64 // answers sent again
	Stale    uint64 // marks of the past
	Torn     uint64 // frames whose checksum stayed wrong
	Retakes  uint64 // looks at frames that were still being written
	Strays   uint64 // datagrams of no client, or for no slot
	Refused  [refusals]uint64
}

// Add adds the counts of another Part.
func (s *Stats) Add(o *Stats) {
	s.Sweeps += o.Sweeps
	s.Requests += o.Requests
	s.Repeats += o.Repeats
	s.Stale += o.Stale
	s.Torn += o.Torn
	s.Retakes += o.Retakes
	s.Strays += o.Strays
	for i, n := range o.Refused {
		s.Refused[i] += n
	}
}
