package grpcerpc

import "github.com/userspace-rpc/erpc/erpc"

// The defaults of erpc's configuration.
const (
	defaultSlots      = 64
	defaultMaxMessage = 64<<20 + 1<<20 // a message of 64 MiB, with metadata
	defaultBackground = 1 << 17
	defaultQueue      = defaultBackground / 4 * 3 // an address's part of them: its calls run, or end
	defaultCredits    = 128
)

// withDefaults fills fields that are zero, where grpcerpc has defaults other than erpc's.
func withDefaults(cfg erpc.Config) erpc.Config {
	if cfg.Slots == 0 {
		cfg.Slots = defaultSlots
	}
	if cfg.MaxMessage == 0 {
		cfg.MaxMessage = defaultMaxMessage
	}
	if cfg.Credits == 0 {
		cfg.Credits = defaultCredits // one for each slot, and some: 32 hold up most of 64 callers
	}
	if cfg.MaxQueue == 0 {
		cfg.MaxQueue = defaultQueue
	}
	if cfg.MaxBackground == 0 {
		cfg.MaxBackground = defaultBackground
	}
	return cfg
}
