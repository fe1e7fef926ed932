package cluster

import (
	"errors"

	"github.com/userspace-rpc/erpc/erpc"
)

// lapsed are the details of a refusal, by which clients know it.
const lapsed = "erpc/cluster: lapsed"

// Refusal returns what a server answers to a request that it may not serve now, for a reason.
func Refusal(reason error) error {
	return &erpc.Error{Code: erpc.CodeUnavailable, Text: reason.Error(), Details: []byte(lapsed)}
}

// Refused reports whether a call was answered by a Refusal: its handler has not run, and another
// server may be asked.
func Refused(err error) bool {
	var answer *erpc.Error
	return errors.As(err, &answer) && string(answer.Details) == lapsed
}
