#!/usr/bin/env bash
# An installed program starts without the module whose library it was linked with: a small project with our CMake file, a
# library in a module's folder that LIBRARY_PATH names, as modules do, and one with stubs, which belongs in no RUNPATH.
set -euo pipefail
. "$(dirname "$0")/../support/shell.sh"
command -v readelf >/dev/null || skip "no readelf"

mkdir -p "$scratch"/{source,module/lib/stubs}
cd "$scratch/source"
echo 'int answer() { return 42; }' >answer.cpp
for library in libanswer.so stubs/libstub.so; do
  c++ -shared -fPIC "-Wl,-soname,$(basename "$library")" -o "$scratch/module/lib/$library" answer.cpp
done
cat >CMakeLists.txt <<'PROJECT'
cmake_minimum_required(VERSION 3.22)
project(small LANGUAGES C CXX)
list(APPEND CMAKE_MODULE_PATH "$ENV{BERT_HPC_SOURCE}/src/cmake")
include(bert_hpc_runpath)
find_library(answer answer PATHS "$ENV{MODULE}/lib" REQUIRED)
find_library(stub stub PATHS "$ENV{MODULE}/lib/stubs" REQUIRED)
add_executable(small main.cpp)
target_link_libraries(small PRIVATE -Wl,--no-as-needed ${answer} ${stub})
install(TARGETS small RUNTIME DESTINATION bin)
PROJECT
echo 'int answer(); int main() { return answer() == 42 ? 0 : 1; }' >main.cpp

export MODULE="$scratch/module"
expect_status 0 env LIBRARY_PATH="$MODULE/lib:$MODULE/lib/stubs" cmake -S . -B "$scratch/build" -DCMAKE_INSTALL_PREFIX="$scratch/installed"
expect grep -q "IMPLICIT_LINK_DIRECTORIES.*$MODULE/lib" "$scratch"/build/CMakeFiles/*/CMakeCXXCompiler.cmake
expect_status 0 env LIBRARY_PATH="$MODULE/lib:$MODULE/lib/stubs" cmake --build "$scratch/build"
expect_status 0 cmake --install "$scratch/build"
runpath=$(readelf -d "$scratch/installed/bin/small" | sed -n 's/.*R.*PATH.*\[\(.*\)\]/\1/p')
expect [ "$runpath" = "$MODULE/lib" ]
mv "$MODULE/lib/stubs/libstub.so" "$MODULE/lib/"  # in its true folder, as a driver's library would be
expect_status 0 env -u LIBRARY_PATH -u LD_LIBRARY_PATH "$scratch/installed/bin/small"
