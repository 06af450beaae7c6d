#!/bin/sh
# Runs the tests of `crates/cuda` on this machine's card, and again under compute-sanitizer where there is one.
# `cargo xtask gpu-test` puts this file beside the test program (`it`) and what that reads (`golden`): the folder is all
# that a machine needs. Arguments are names of tests; without any, all are run.
set -u
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
export BIREME_TEST_CARD=real BIREME_GOLDEN="$here/golden"
failed=''
skipped=''

step() {
  name=$1
  shift
  echo "==> $name"
  if ! "$@"; then failed="$failed $name"; fi
}

# Kernels of our own. Racecheck finds fault with those of cuBLASLt, so tests of products are left out there.
own='create:: elementwise:: index:: lookup:: losses:: metrics:: norms:: optimizers:: order:: pool:: random:: reduce::
selected_rows:: shape:: table::'

step tests "$here/it" "$@"
sanitizer=$(command -v compute-sanitizer || command -v /usr/local/cuda/bin/compute-sanitizer || true)
if [ -n "$sanitizer" ]; then
  step memcheck "$sanitizer" --tool memcheck --error-exitcode 1 "$here/it" --test-threads 1 "$@"
  if [ $# -gt 0 ]; then
    step racecheck "$sanitizer" --tool racecheck --error-exitcode 1 "$here/it" --test-threads 1 "$@"
  else
    # shellcheck disable=SC2086 # The names are words.
    step racecheck "$sanitizer" --tool racecheck --error-exitcode 1 "$here/it" --test-threads 1 $own
  fi
else
  skipped='memcheck and racecheck (no compute-sanitizer: it comes with the CUDA toolkit)'
fi

echo
[ -z "$skipped" ] || echo "skipped: $skipped"
if [ -n "$failed" ]; then
  echo "failed:$failed"
  exit 1
fi
echo "passed on the card"
