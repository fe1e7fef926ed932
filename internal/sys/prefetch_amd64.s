#include "textflag.h"

// func prefetch(p unsafe.Pointer, lines uintptr)
TEXT ·prefetch(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ lines+8(FP), CX
	TESTQ CX, CX
	JEQ  done
loop:
	PREFETCHT0 (AX)
	ADDQ $64, AX
	DECQ CX
	JNE  loop
done:
	RET
