// Package filelock keeps two processes from writing the same files at a time.
//
// A lock is one of the kernel: it ends with its holder, also by kill -9, and a child that the
// holder started does not have it. The file of a lock stays when the lock is given back, since
// somebody else may be about to take it; it has the holder's number and host as text. A file system
// that cannot lock gives an error. Over NFS, Linux asks the server, so that locks hold between
// hosts.
//
// # Map
//
//	owns       lock files
//	called by  what keeps its data in files for as long as it runs
//	never      waits
package filelock
