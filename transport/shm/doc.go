// Package shm carries packets between processes of one machine through shared memory.
package shm
