#!/usr/bin/env bash
# valgrind.sh BUILD: memcheck over parts of a build without sanitizers, after showing that it reports a fault made
# on purpose. What reads bytes that are not ours and our samplers: every seed and find of the fuzz targets. Engine,
# kernels of the CPU backend (their quicker tests) and whole runs of both architectures. No suppressions: nothing
# needs one. The instruction sets beyond AVX2 are unknown to valgrind.
set -u
build=$1 failed=0
export DLLM_CPU_ISA=avx2
check() { valgrind --quiet --error-exitcode=99 --leak-check=full --show-leak-kinds=definite \
    --errors-for-leak-kinds=definite "$@" >"$log" 2>&1; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# hold NAME COMMAND...: the command succeeds and memcheck finds nothing.
hold() {
  local name=$1 begin=$SECONDS
  shift
  if check "$@"; then
    echo "valgrind: $name clean, $((SECONDS - begin)) s, $(tail -n 1 "$log")"
  else
    echo "valgrind: $name FAILED"
    grep -A 20 "==" "$log" | head -n 60
    failed=1
  fi
}

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
  hold "$name" "$target" "${folders[@]}"
done
hold engine "$build/tests/engine_test"
kernels=(AttentionOp.{AValue,LargeScores,Queries}'*' 'RowsOp.*' 'Embed.*' 'HeadStatsOp.AgreesWithOracleOnEvery*'
         'HeadStatsOp.AWeight*' '*NormLinearAgreesWithOracle/Q4_K')
for tests in "${kernels[@]}"; do
  "$build/tests/backend_conformance_test" --gtest_list_tests --gtest_filter="$tests" | grep -q "^  " && continue
  echo "valgrind: kernels FAILED: no test is called $tests"
  failed=1
done
hold kernels "$build/tests/backend_conformance_test" --gtest_filter="$(IFS=:; echo "${kernels[*]}")"
for model in llada dream; do
  hold "run of demo-$model" "$build/bin/dllm" run -m "apps/demo_models/demo-$model.gguf" -p "2 + 3" -n 8 -t 2
done
exit $failed
