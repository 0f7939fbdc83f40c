#!/usr/bin/env bash
# tests/run.sh in a project of four entries, with scripts that only pretend to set up and configure: counts, phases, times,
# what a failure ends, what --quick chooses, the processes of --busy.
set -euo pipefail
. "$BERT_HPC_SOURCE/tests/support/shell.sh"

mkdir -p "$scratch"/project/{jobs,tests}
cd "$scratch/project"
cp "$BERT_HPC_SOURCE/jobs/common.sh" jobs/
cp "$BERT_HPC_SOURCE/tests/run.sh" tests/
printf '#!/bin/sh\necho "set-up $*"\n' >jobs/setup.sh
cat >jobs/build.sh <<'SCRIPT'
#!/bin/sh
echo "build $*"
[ ! -e broken ] || exit 1
case $* in *--cuda*) folder=build-cuda; [ ! -e broken-kernel ] || { echo "kernel.cpp: error"; exit 1; } ;; *--sanitize*) folder=build-sanitize ;; *) folder=build ;; esac
cmake -S . -B $folder >/dev/null
SCRIPT
chmod +x jobs/*.sh
cat >CMakeLists.txt <<'PROJECT'
cmake_minimum_required(VERSION 3.22)
project(pretended NONE)
foreach(program bert_hpc bert_hpc_prep bert_hpc_score)
  add_custom_target(${program})
endforeach()
enable_testing()
add_test(NAME "unit: a < \"b\" & 'c'" COMMAND sh -c "ps -eo args >${CMAKE_SOURCE_DIR}/processes")
add_test(NAME "fault: absent tool" COMMAND sh -c "exit 77")
add_test(NAME "integration: fails" COMMAND sh -c "test ! -e ${CMAKE_SOURCE_DIR}/fails")
add_test(NAME "style: words" COMMAND sh -c "test ! -e ${CMAKE_SOURCE_DIR}/unformatted")
set_tests_properties("unit: a < \"b\" & 'c'" PROPERTIES LABELS unit)
set_tests_properties("fault: absent tool" PROPERTIES SKIP_RETURN_CODE 77 LABELS fault)
set_tests_properties("integration: fails" PROPERTIES LABELS integration)
set_tests_properties("style: words" PROPERTIES LABELS "style;first")
PROJECT
last_line() { expect [ "$(tail -n 1 "$scratch/output")" = "$1" ]; }
no_text() { ! grep -qF -- "$1" "$scratch/output" || { echo "FAILED: \"$1\" in:"; cat "$scratch/output"; exit 1; }; }
run() { expect_status "$1" bash tests/run.sh "${@:2}"; }

# Everything passes; the phases are named in their order, and entries with their names as they are.
run 0 --no-cuda
last_line "3 passed, 0 failed, 1 skipped"
expect_text "fault: absent tool"
expect_text "unit: a < \"b\" & 'c'" <(sed -n '/Longest entries/,/Minutes/p' "$scratch/output")
phases=$(sed -n '/^== Minutes/,$s/^ *[0-9]*:[0-9][0-9]  //p' "$scratch/output" | paste -sd,)
expect [ "$phases" = "set-up,style,product build,test build,run" ]
run 0 --cuda
last_line "6 passed, 0 failed, 2 skipped"
expect_text "rest of the CUDA build"
expect_text "build --cuda --tests --werror" build/cuda.log

# Times of entries of three seconds and more stay, if their entries do not run again.
printf '400 slurm: slurm\n' >build/seconds.txt
run 0 --no-cuda -L unit
last_line "1 passed, 0 failed, 0 skipped"
expect_text "400 slurm: slurm" build/seconds.txt

# --quick: no CUDA build, no integration.
run 0 --quick
last_line "2 passed, 0 failed, 0 skipped"
no_text "integration: fails"
no_text "--cuda"

# Style fails: nothing is built. Another entry fails, the build fails: counted.
touch unformatted
run 1 --no-cuda
last_line "0 passed, 1 failed, 0 skipped"
no_text "product build"
rm unformatted
touch fails
run 1 --no-cuda
last_line "2 passed, 1 failed, 1 skipped"
rm fails
touch broken
run 1 --no-cuda
last_line "0 passed, 1 failed, 0 skipped"
rm broken
touch broken-kernel
run 1 --cuda
last_line "3 passed, 1 failed, 1 skipped"
expect_text "kernel.cpp: error"
rm broken-kernel
run 1 --no-cuda -R nothing
last_line "0 passed, 1 failed, 0 skipped"

# --busy: one process per core while entries run, none afterwards.
. jobs/common.sh
bash tests/run.sh --busy --no-cuda >"$scratch/output" 2>&1 &
process=$!
expect wait $process
last_line "3 passed, 0 failed, 1 skipped"
expect [ "$(grep -c "spinner $process\$" processes)" = "$(core_count)" ]
expect [ "$(ps -eo stat,args | grep -v '^Z' | grep -c "spinner $process\$" || true)" = 0 ]
