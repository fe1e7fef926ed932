package main

import (
	"os"
	"runtime/pprof"
	"time"
)

func init() {
	if d := os.Getenv("PROF"); d != "" {
		name := d + "/parent"
		for i, a := range os.Args {
			if a == "-child" {
				name = d + "/" + os.Args[i+1]
			}
		}
		f, _ := os.Create(name)
		go func() {
			time.Sleep(8 * time.Second)
			pprof.StartCPUProfile(f)
			time.Sleep(4 * time.Second)
			pprof.StopCPUProfile()
			f.Close()
		}()
	}
}
