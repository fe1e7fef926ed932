package measure

import (
	"errors"
	"fmt"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/transport/pcap"
)

// captureFlags write this process's packets to a file.
type captureFlags struct {
	Pcap    string `name:"pcap" help:"Write the packets that this process sends and receives to a file, for erpc decode, Wireshark and tcpdump." placeholder:"FILE"`
	SnapLen int    `name:"snaplen" help:"With --pcap: bytes to keep of each frame, made-up headers included; 86 keeps headers only; 0: all." placeholder:"BYTES"`

	capture *pcap.Capture // under way, or nil
}

// startCapture begins the capture, if there is to be one; e ends it with the subcommand.
func (f *captureFlags) startCapture(e *Env) error {
	if f.Pcap == "" {
		if f.SnapLen != 0 {
			return cli.Usagef("--snaplen is for --pcap: give a file to capture to")
		}
		return nil
	}
	c, err := pcap.Create(f.Pcap, pcap.Config{SnapLen: f.SnapLen})
	var bad *pcap.ConfigError
	if errors.As(err, &bad) {
		return cli.Usagef("--snaplen %d: %s", f.SnapLen, bad.Reason)
	}
	if err != nil {
		return fmt.Errorf("--pcap: %w", err)
	}
	f.capture = c
	e.atEnd = append(e.atEnd, func() error {
		err := c.Close()
		n := c.Counts()
		missing := ""
		if n.Dropped > 0 {
			missing = fmt.Sprintf(
				"; %d are missing, as the file could not be written fast enough: try --snaplen 86", n.Dropped)
		}
		fmt.Fprintf(e.Err, "%d packets captured in %s%s\n", n.Packets, f.Pcap, missing)
		return err
	})
	return nil
}
