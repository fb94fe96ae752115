# Makes 20 calls of poll (168 in the 32-bit table) by int 0x80, then fork (2), wait4 (114) and exit (1).
#   64-bit program: as --64 --defsym LONG=1 calls32.S -o x.o && ld -s -z noseparate-code -o calls32-int80 x.o
#   32-bit program: as --32 calls32.S -o x.o && ld -s -z noseparate-code -m elf_i386 -o calls32-i386 x.o
	.globl _start
	.text
_start:
	.ifdef LONG
	mov $39, %eax		# getpid of the 64-bit table
	syscall
	.endif
	mov $20, %esi
	mov %esi, %ebp
1:	mov $168, %eax
	xor %ebx, %ebx
	xor %ecx, %ecx
	xor %edx, %edx
	int $0x80
	dec %ebp
	jnz 1b
	mov $2, %eax
	int $0x80
	test %eax, %eax
	jz 2f
	mov $114, %eax
	mov $-1, %ebx
	xor %ecx, %ecx
	xor %edx, %edx
	xor %esi, %esi
	int $0x80
2:	mov $1, %eax
	xor %ebx, %ebx
	int $0x80
