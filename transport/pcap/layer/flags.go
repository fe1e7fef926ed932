package layer

import (
	"fmt"

	"github.com/userspace-rpc/erpc/wire"
)

// secondFlag names the second flag bit, which means something else in each packet type.
var secondFlag = map[wire.Type]string{
	wire.TypeReq: "QUIET", wire.TypeCR: "GAP", wire.TypeResp: "LATE", wire.TypeErr: "LATE",
	wire.TypeWait: "KEEP",
}

// FlagNames returns the names of the flags that are set, as constants of package wire have them,
// in capitals: CE, and QUIET, GAP, LATE or KEEP. Of a smaller cut it tells the packet size,
// as CUT=1452.
func (e *ERPC) FlagNames() []string {
	names := []string{}
	if e.Flags&wire.FlagCE != 0 {
		names = append(names, "CE")
	}
	if name := secondFlag[e.Type]; name != "" && e.Flags&wire.FlagQuiet != 0 {
		names = append(names, name)
	}
	if cut := e.Flags.Cut(); cut > 0 && cut <= wire.MaxCut {
		names = append(names, fmt.Sprintf("CUT=%d", wire.CutSizes[cut]))
	}
	return names
}
