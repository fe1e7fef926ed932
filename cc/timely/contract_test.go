package timely

import "github.com/userspace-rpc/erpc/cc"

var _ cc.Controller = (*Control)(nil)
