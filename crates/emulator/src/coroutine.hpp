// Coroutines: a switch saves what the calling convention says a call keeps, and nothing else.
//
// Only scheduler.cpp includes this: the assembly must be in the library once.
#pragma once
#include <cstddef>
#include <cstring>

/// Goes on where `load` stopped; `*save` is where the caller stopped.
extern "C" void card_switch(void** save, void* load);

namespace card {

/// What a thread of a kernel may put on its stack.
constexpr size_t STACK = 64 << 10;

/// Where a stack starts. Stacks that all started at the same place of a page would share a few lines of
/// the cache.
inline char* stack_top(char* stack) {
  size_t number = reinterpret_cast<size_t>(stack) / 4096;
  return stack + STACK - 16 - number * 7 % 64 * 64;
}

#if defined(__x86_64__)
asm(R"(
.text
.globl card_switch
.hidden card_switch
.type card_switch, @function
card_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");
inline void* prepare_stack(char* stack, void (*entry)()) {
  // `ret` finds the entry, aligned as after a call.
  auto top = reinterpret_cast<void**>(stack_top(stack));
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; i++) *--top = nullptr;
  return top;
}
#elif defined(__aarch64__)
asm(R"(
.text
.globl card_switch
.hidden card_switch
.type card_switch, %function
card_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x2, sp
  str x2, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
)");
inline void* prepare_stack(char* stack, void (*entry)()) {
  auto top = stack_top(stack) - 160;
  std::memset(top, 0, 160);
  std::memcpy(top + 88, &entry, sizeof entry);
  return top;
}
#else
#error "the emulated card knows x86-64 and AArch64"
#endif

}  // namespace card
