//go:build !linux

package main

func pin(pid, core int) {}
