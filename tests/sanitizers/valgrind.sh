#!/usr/bin/env bash
# valgrind.sh BUILD: memcheck over parts of a build without sanitizers, after showing that it reports a fault made
# on purpose. What reads bytes that are not ours, and our samplers: every seed and find of the fuzz targets. The
# instruction sets beyond AVX2 are unknown to valgrind.
set -u
build=$1 failed=0
export DLLM_CPU_ISA=avx2
check() { valgrind --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite "$@" >"$log" 2>&1; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT

if check "$build/tests/sanitizer_fault" address || ! grep -q "Invalid read" "$log"; then
  echo "valgrind did not report the fault made on purpose:"
  cat "$log"
  exit 1
fi
for target in "$build"/tests/fuzz_*; do
  [ -f "$target" ] && [ -x "$target" ] || continue
  name=${target##*/fuzz_}
  folders=("$build/tests/fuzz/seeds/$name")
  [ -d "tests/fuzz/corpus/$name" ] && folders+=("tests/fuzz/corpus/$name")
  if check "$target" "${folders[@]}"; then
    echo "valgrind: $name clean, $(tail -n 1 "$log")"
  else
    echo "valgrind: $name FAILED"
    grep -A 20 "==" "$log" | head -n 60
    failed=1
  fi
done
exit $failed
