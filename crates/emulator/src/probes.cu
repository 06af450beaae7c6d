// Kernels that do what kernels must not do, and some that do well: the card is tested with them.
#define PROBE extern "C" __global__ void

PROBE probe_scale(const float* from, float* to, int n, float by) {
  int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) to[i] = from[i] * by;
}
EXPORT(probe_scale)

// Adds 1: run twice on the same memory it tells how often it ran.
PROBE probe_count(int* at) {
  if (blockIdx.x == 0 && threadIdx.x == 0) at[0] += 1;
}
EXPORT(probe_count)

// Writes or reads beyond what it was given.
PROBE probe_write(char* at, long long offset) { at[offset] = 1; }
EXPORT(probe_write)

PROBE probe_misaligned(char* at) { *reinterpret_cast<float4*>(at + 4) = make_float4(1, 2, 3, 4); }
EXPORT(probe_misaligned)

PROBE probe_early_end() {
  if (threadIdx.x == 3) return;
  __syncthreads();
}
EXPORT(probe_early_end)

PROBE probe_two_barriers() {
  if (threadIdx.x & 1)
    __syncthreads();
  else
    __syncthreads();
}
EXPORT(probe_two_barriers)

PROBE probe_lonely_lane(int* out) {
  if (threadIdx.x == 0) out[0] = __shfl_sync(~0u, 1, 0);
}
EXPORT(probe_lonely_lane)

PROBE probe_endless_wait(volatile int* flag) {
  while (!*flag) __nanosleep(10);
}
EXPORT(probe_endless_wait)

PROBE probe_deep_stack(volatile char* at) {
  volatile char much[80 << 10];
  for (unsigned i = 0; i < sizeof much; i += 512) much[i] = at[0];
  at[1] = much[512];
}
EXPORT(probe_deep_stack)

PROBE probe_division(int* at) { at[1] = 7 / at[0]; }
EXPORT(probe_division)

// Which block came last depends on the order of blocks.
PROBE probe_last_block(int* at) { at[0] = static_cast<int>(blockIdx.x); }
EXPORT(probe_last_block)

// Sums a block by shared memory, barriers and halves of warps that meet apart.
PROBE probe_block_sum(const float* from, float* to, int n) {
  DYNAMIC_SHARED(float, sums);
  int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  float x = i < n ? from[i] : 0;
  unsigned half = threadIdx.x & 16 ? 0xffff0000u : 0x0000ffffu;
  for (int with = 8; with; with >>= 1) x += __shfl_xor_sync(half, x, with);
  if (threadIdx.x % 16 == 0) sums[threadIdx.x / 16] = x;
  __syncthreads();
  if (threadIdx.x == 0) {
    float all = 0;
    for (unsigned part = 0; part < blockDim.x / 16; part++) all += sums[part];
    to[blockIdx.x] = all;
  }
}
EXPORT(probe_block_sum)

PROBE probe_votes(int* out) {
  int count = __syncthreads_count(threadIdx.x % 3 == 0);
  unsigned ballot = __ballot_sync(~0u, threadIdx.x & 1);
  unsigned same = __match_any_sync(~0u, static_cast<int>(threadIdx.x % 4));
  out[threadIdx.x * 3] = count;
  out[threadIdx.x * 3 + 1] = static_cast<int>(ballot);
  out[threadIdx.x * 3 + 2] = static_cast<int>(same);
}
EXPORT(probe_votes)

// Races, each of its kind; and the same with what orders it.
PROBE probe_race_in_block(int* out, int ordered) {
  DYNAMIC_SHARED(int, words);
  words[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (ordered) __syncthreads();
  out[threadIdx.x] = words[(threadIdx.x + 1) % blockDim.x];
}
EXPORT(probe_race_in_block)

PROBE probe_race_in_warp(int* out, int ordered) {
  DYNAMIC_SHARED(int, words);
  words[threadIdx.x] = 1;
  __syncwarp();
  int sum = words[threadIdx.x ^ 1];
  if (ordered) __syncwarp();
  words[threadIdx.x] = 2;
  out[threadIdx.x] = sum;
}
EXPORT(probe_race_in_warp)

// Halves of a word are two elements, whoever else has the other.
PROBE probe_halves(unsigned short* out) {
  out[threadIdx.x] = static_cast<unsigned short>(threadIdx.x);
  out[threadIdx.x] += 1;
}
EXPORT(probe_halves)

// The block that comes last reads what the others wrote.
PROBE probe_race_of_blocks(int* parts, unsigned* ticket, int* out, int ordered) {
  if (threadIdx.x == 0) parts[blockIdx.x] = 1;
  if (threadIdx.x || (ordered && atomicAdd(ticket, 1u) != gridDim.x - 1)) return;
  if (!ordered && blockIdx.x) return;
  int sum = 0;
  for (unsigned block = 0; block < gridDim.x; block++) sum += parts[block];
  out[0] = sum;
}
EXPORT(probe_race_of_blocks)
