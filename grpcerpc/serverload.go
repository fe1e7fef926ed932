package grpcerpc

import (
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// loadKey is the trailer with the report of a server's load (gRFC A51).
const loadKey = "endpoint-load-metrics-bin"

// loadReport is the report's message. Programs have its type if a balancer of theirs reads it.
const loadReport protoreflect.FullName = "xds.data.orca.v3.OrcaLoadReport"

// serverLoad returns the load that a call's trailer reports, for balancer.DoneInfo.ServerLoad: a
// *orca.OrcaLoadReport; nil without one, and of several or a malformed one.
func serverLoad(trailer metadata.MD) any {
	reports := trailer[loadKey]
	if len(reports) != 1 {
		return nil
	}
	known, err := protoregistry.GlobalTypes.FindMessageByName(loadReport)
	if err != nil {
		return nil
	}
	report := known.New().Interface()
	if proto.Unmarshal([]byte(reports[0]), report) != nil {
		return nil
	}
	return report
}
