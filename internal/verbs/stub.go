//go:build !cgo || !linux

package verbs

import (
	"runtime"
	"unsafe"
)

// handle stands for a pointer of the library.
type handle = unsafe.Pointer

// enosys is the error of every function here; nobody gets further than Available.
const enosys = -38

func sysLoad() *MissingError {
	if runtime.GOOS != "linux" {
		return &MissingError{What: "not available on " + runtime.GOOS, Mend: "verbs need Linux"}
	}
	return &MissingError{What: "built without cgo", Mend: mendCgo}
}

func sysDevices([]byte) int                            { return enosys }
func sysOpen(string) (handle, int)                     { return nil, enosys }
func sysClose(handle) int                              { return enosys }
func sysQueryDevice(handle, *DeviceAttr) int           { return enosys }
func sysQueryPort(handle, int, *PortAttr) int          { return enosys }
func sysQueryGID(handle, int, int, *GID) int           { return enosys }
func sysAsyncFD(handle) int                            { return -1 }
func sysAsyncEvent(handle, *Event) int                 { return enosys }
func sysAllocPD(handle) (handle, int)                  { return nil, enosys }
func sysDeallocPD(handle) int                          { return enosys }
func sysDeregMR(handle) int                            { return enosys }
func sysCreateAH(handle, *AHAttr) (handle, int)        { return nil, enosys }
func sysDestroyAH(handle) int                          { return enosys }
func sysCreateChannel(handle) (handle, int, int)       { return nil, -1, enosys }
func sysDestroyChannel(handle) int                     { return enosys }
func sysDrainChannel(handle) int                       { return 0 }
func sysDestroyCQ(handle) int                          { return enosys }
func sysArmCQ(handle) int                              { return enosys }
func sysPollCQ(handle, *WC, int) int                   { return enosys }
func sysModifyQP(handle, QPType, *QPAttr) int          { return enosys }
func sysDestroyQP(handle) int                          { return enosys }
func sysPostSend(handle, int, *SendWR, int) (_, _ int) { return 0, enosys }
func sysPostRecv(handle, *RecvWR, int) (_, _ int)      { return 0, enosys }
func sysStatus(uint32) string                          { return "unknown" }

func sysRegMR(handle, uint64, uint64, Access) (mr handle, lkey, rkey uint32, rc int) {
	return nil, 0, 0, enosys
}

func sysCreateCQ(handle, int, handle) (cq handle, got, rc int) { return nil, 0, enosys }

func sysCreateQP(handle, handle, handle, *QPConfig) (qp handle, num uint32, rc int) {
	return nil, 0, enosys
}
