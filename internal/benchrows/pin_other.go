//go:build !linux

package main

func pin(core int) {}

func pinProcess(pid, core int) {}
