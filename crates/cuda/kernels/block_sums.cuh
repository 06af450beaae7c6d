// Sums over whole tensors: every block leaves its own, and who needs the sum adds those up.
#pragma once
#include "prelude.cuh"

FILE_OWN {

const int NORM_THREADS = 256;

/// The sum over a block of 256 threads, for all of them, in the same order in every run.
INLINE double block_sum(double x) {
  __shared__ double sums[NORM_THREADS / WARP_SIZE];
  x = warp_sum(x);
  if (threadIdx.x % WARP_SIZE == 0) sums[threadIdx.x / WARP_SIZE] = x;
  __syncthreads();
  x = 0;
  for (int w = 0; w < NORM_THREADS / WARP_SIZE; w++) x += sums[w];
  __syncthreads();
  return x;
}

/// Adds up what the blocks of another launch left.
INLINE double sum_of_blocks(const double* partial, uint32_t count) {
  double sum = 0;
  for (uint32_t i = threadIdx.x; i < count; i += NORM_THREADS) sum += partial[i];
  return block_sum(sum);
}

}  // own
