package cuckoo
import ("testing";"math/rand/v2";"time";"fmt";"os";"strconv")
func TestTmp(t *testing.T) {
	size := 1<<30
	if s:=os.Getenv("SZ"); s!="" { size,_=strconv.Atoi(s) }
	n := size/128*8*8/10
	tab := New(n)
	keys := make([]uint64,n)
	r := rand.New(rand.NewPCG(1,2))
	for i := range keys { keys[i]=r.Uint64()|1; tab.Put(keys[i],uint64(i)) }
	look := make([]uint64, 4096); v:=make([]uint64,4096); ok:=make([]bool,4096)
	draw := func(){ for i:=range look{look[i]=keys[r.IntN(n)]} }
	ways := []struct{n string; f func()}{
		{"plain",func(){ for i,k:=range look{ v[i],ok[i]=tab.Get(k)} }},
		{"hand",func(){tab.GetBatch(look,v,ok)}},
		{"gen",func(){tab.getBatch(look,v,ok)}},
		{"hand16",func(){for i:=0;i<4096;i+=16{tab.GetBatch(look[i:i+16],v[i:],ok[i:])}}},
		{"gen16",func(){for i:=0;i<4096;i+=16{tab.getBatch(look[i:i+16],v[i:],ok[i:])}}},
	}
	for range 5 { for _,w:=range ways {
		var d time.Duration; c:=0
		for range 50 { draw(); b:=time.Now(); w.f(); d+=time.Since(b); c+=4096 }
		fmt.Printf("%s %.1f  ", w.n, float64(d)/float64(c))
	}; fmt.Println() }
}
