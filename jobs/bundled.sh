# shellcheck shell=bash disable=SC2154
# Sourced by setup.sh for --bundle: builds missing libraries from the sources that jobs/bundle.sh packed, into the
# cache's prefix, without a network. Libraries are static if possible, so that an installed program needs the cache only
# for an MPI that had to be built there.

# open_bundle PATH: unpacks a tar file, or uses a folder, and verifies the checksum of every source. Sets `bundle`.
open_bundle() {
  if [ -d "$1" ]; then
    bundle=$(cd "$1" && pwd)
  elif [ -f "$1" ]; then
    mkdir -p "$scratch/unpacked"
    tar -C "$scratch/unpacked" -xf "$1" || fail 4 "cannot unpack the bundle $1"
    bundle=$scratch/unpacked/bert_hpc-bundle
  else
    fail 2 "there is no bundle $1 (a file that jobs/bundle.sh made, or the folder in it)"
  fi
  [ -f "$bundle/SHA256SUMS" ] || fail 4 "$1 is no bundle of jobs/bundle.sh: it has no SHA256SUMS"
  (cd "$bundle" && sha256sum --quiet --check SHA256SUMS) >&2 || fail 4 "the bundle $1 is damaged (above): copy it again"
}

# unpack_bundled NAME FOLDER: unpacks the source NAME of the bundle, without its top folder.
unpack_bundled() {
  local file
  for file in "$bundle/$1"-*.tar.*; do
    [ -f "$file" ] || return 1
    mkdir -p "$2"
    tar -C "$2" --strip-components=1 -xf "$file"
    return
  done
}

# from_bundle LIBRARY: builds and installs LIBRARY, a name that CMakeLists.txt prints.
from_bundle() {
  local name source log prefix=$bert_hpc_cache/prefix
  case $1 in
    MPI) name=openmpi ;;
    HDF5) name=hdf5 ;;
    ZLIB) name=zlib ;;
    toml++) name=tomlplusplus ;;
    oneDNN) name=onednn ;;
    Kokkos | Catch2 | nlohmann_json | utf8proc | zstd) name=$(tr '[:upper:]' '[:lower:]' <<<"$1") ;;
    *) return 1 ;;
  esac
  if [ "$name" = kokkos ]; then
    build_kokkos
    return
  fi
  source=$scratch/source-$name log=$scratch/$name.log
  unpack_bundled "$name" "$source" || return 1
  say "$1: building $(basename "$bundle/$name"-*.tar.*) into the cache"
  if ! "bundled_$name" "$source" >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    return 1
  fi
  if [ "$name" = openmpi ]; then note "mpirun is in $prefix/bin: add that to PATH, also where bert_hpc runs"; fi
}
# build_missing_from_bundle: builds what the probe missed and what --from-bundle names, in order of dependency.
build_missing_from_bundle() {
  local name
  for name in ZLIB zstd MPI HDF5 Kokkos toml++ nlohmann_json utf8proc oneDNN Catch2; do
    case " $forced " in
      *" $name "*) ;;
      *) grep -q "^$name|" "$scratch/missing" || continue ;;
    esac
    from_bundle "$name" || note "$name could not be built from the bundle"
  done
}
bundled_cmake() { # bundled_cmake SOURCE OPTION...
  local source=$1
  shift
  cmake -S "$source" -B "$source-build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" \
    -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_SHARED_LIBS=OFF -DBUILD_TESTING=OFF \
    -DCMAKE_POLICY_VERSION_MINIMUM=3.5 "$@" &&
    cmake --build "$source-build" -j "$(build_jobs)" && cmake --install "$source-build"
}
bundled_zlib() {
  (cd "$1" && CFLAGS="-O3 -fPIC" ./configure --static --prefix="$prefix" && make -j "$(build_jobs)" && make install)
}
bundled_zstd() { make -C "$1/lib" -j "$(build_jobs)" CFLAGS="-O3 -fPIC" PREFIX="$prefix" install-static install-includes; }
bundled_openmpi() {
  (cd "$1" && ./configure --prefix="$prefix" --disable-mpi-fortran --disable-oshmem --disable-man-pages --without-verbs \
    --with-libevent=internal --with-hwloc=internal --with-pmix=internal && make -j "$(build_jobs)" && make install)
}
# CMake's FindHDF5 runs the h5pcc that this installs.
bundled_hdf5() {
  local compiler
  compiler=$(PATH=$PATH:$prefix/bin; command -v mpicc || command -v cc)
  (cd "$1" && CC=$compiler CPPFLAGS=-I$prefix/include LDFLAGS=-L$prefix/lib ./configure --prefix="$prefix" --enable-parallel \
    --disable-cxx --disable-fortran --disable-hl --disable-tests --disable-tools --disable-shared --with-pic \
    --enable-build-mode=production && make -j "$(build_jobs)" && make install)
}
bundled_nlohmann_json() { bundled_cmake "$1" -DJSON_BuildTests=OFF; }
bundled_utf8proc() { bundled_cmake "$1"; }
bundled_catch2() { bundled_cmake "$1" -DCATCH_INSTALL_DOCS=OFF; }
# bert_hpc uses only its matrix products, which every configuration includes.
bundled_onednn() {
  bundled_cmake "$1" -DDNNL_LIBRARY_TYPE=STATIC -DONEDNN_BUILD_GRAPH=OFF -DDNNL_BUILD_TESTS=OFF -DDNNL_BUILD_EXAMPLES=OFF \
    -DDNNL_ENABLE_PRIMITIVE=MATMUL -DDNNL_ENABLE_JIT_PROFILING=OFF -DDNNL_ENABLE_ITT_TASKS=OFF
}
# The full source has a CMake project; the headers alone need only a package description.
bundled_tomlplusplus() {
  if [ -f "$1/CMakeLists.txt" ]; then
    bundled_cmake "$1"
    return
  fi
  mkdir -p "$prefix/include" "$prefix/lib/cmake/tomlplusplus"
  cp -r "$1/toml++" "$prefix/include/"
  cat >"$prefix/lib/cmake/tomlplusplus/tomlplusplusConfig.cmake" <<'CONFIG'
if(NOT TARGET tomlplusplus::tomlplusplus)
  get_filename_component(tomlplusplus_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
  add_library(tomlplusplus::tomlplusplus INTERFACE IMPORTED)
  set_target_properties(tomlplusplus::tomlplusplus PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${tomlplusplus_prefix}/include")
endif()
CONFIG
}
