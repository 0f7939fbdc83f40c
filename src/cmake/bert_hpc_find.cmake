# Searches for dependencies: a list of missing ones with instructions, and the libraries for which CMake has no find
# module that works everywhere.

set(BERT_HPC_MISSING_REQUIRED "")

# bert_hpc_need(NAME FOUND required|optional PURPOSE APT-PACKAGES SPACK-SPECS): records NAME if FOUND is false.
# jobs/setup.sh parses the printed lines.
function(bert_hpc_need name found kind purpose apt spack)
  if(found)
    set(version "")
    foreach(variable ${name}_VERSION ${name}_C_VERSION tomlplusplus_VERSION)
      if(DEFINED ${variable} AND NOT (variable STREQUAL "tomlplusplus_VERSION" AND NOT name STREQUAL "toml++"))
        set(version "${${variable}}")
        break()
      endif()
    endforeach()
    message(STATUS "found: ${name} ${version}")
    return()
  endif()
  message(STATUS "missing: ${name}|${kind}|${purpose}|${apt}|${spack}")
  if(kind STREQUAL "required")
    list(APPEND BERT_HPC_MISSING_REQUIRED "  ${name}: ${purpose} (Debian: ${apt}; Spack: ${spack})")
    set(BERT_HPC_MISSING_REQUIRED "${BERT_HPC_MISSING_REQUIRED}" PARENT_SCOPE)
  endif()
endfunction()

function(bert_hpc_stop_if_missing)
  if(BERT_HPC_MISSING_REQUIRED)
    list(JOIN BERT_HPC_MISSING_REQUIRED "\n" lines)
    message(FATAL_ERROR "Missing:\n${lines}\nRun jobs/setup.sh, load your site's modules, or put their folders on "
      "CMAKE_PREFIX_PATH.")
  endif()
endfunction()

# bert_hpc_find_library(TARGET HEADER LIBRARY-NAMES… [SUFFIXES include folders…]): sets TARGET_FOUND and creates
# bert_hpc::TARGET from header and library alone, without a package's config file.
function(bert_hpc_find_library target header)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "SUFFIXES")
  find_path(${target}_INCLUDE_DIR ${header} PATH_SUFFIXES ${arg_SUFFIXES})
  find_library(${target}_LIBRARY NAMES ${arg_UNPARSED_ARGUMENTS})
  mark_as_advanced(${target}_INCLUDE_DIR ${target}_LIBRARY)
  if(${target}_INCLUDE_DIR AND ${target}_LIBRARY)
    add_library(bert_hpc::${target} UNKNOWN IMPORTED GLOBAL)
    set_target_properties(bert_hpc::${target} PROPERTIES IMPORTED_LOCATION "${${target}_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${${target}_INCLUDE_DIR}")
    set(${target}_FOUND TRUE PARENT_SCOPE)
  else()
    set(${target}_FOUND FALSE PARENT_SCOPE)
  endif()
endfunction()

# oneDNN's own config stops CMake if OpenCL's headers are missing, so it is used only if they exist; otherwise header
# and library suffice for the CPU part, the only one used here.
function(bert_hpc_find_onednn)
  find_package(OpenCL QUIET)
  if(OpenCL_FOUND)
    find_package(dnnl QUIET CONFIG)
  endif()
  if(TARGET DNNL::dnnl)
    add_library(bert_hpc::onednn INTERFACE IMPORTED GLOBAL)
    set_target_properties(bert_hpc::onednn PROPERTIES INTERFACE_LINK_LIBRARIES DNNL::dnnl)
    # Imported targets created in a function are not visible outside its scope.
    set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_GLOBAL TRUE)
    set(onednn_FOUND TRUE)
  else()
    bert_hpc_find_library(onednn oneapi/dnnl/dnnl.hpp dnnl)
  endif()
  set(onednn_FOUND ${onednn_FOUND} PARENT_SCOPE)
  set(oneDNN_VERSION "${dnnl_VERSION}" PARENT_SCOPE)
endfunction()

# Any library with the C interface of BLAS: OpenBLAS, FlexiBLAS, BLIS, MKL's single library, or the reference.
function(bert_hpc_find_cblas)
  bert_hpc_find_library(cblas cblas.h openblas flexiblas blis mkl_rt cblas blas SUFFIXES openblas flexiblas blis)
  if(cblas_FOUND)
    include(CheckCXXSourceCompiles)
    set(CMAKE_REQUIRED_LIBRARIES bert_hpc::cblas)
    set(CMAKE_REQUIRED_QUIET TRUE)
    check_cxx_source_compiles("#include <cblas.h>
      int main() { float x = 1; cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, 1, 1, 1, 1, &x, 1, &x, 1, 0, &x, 1); }"
      BERT_HPC_CBLAS_WORKS)
    set(cblas_FOUND ${BERT_HPC_CBLAS_WORKS})
  endif()
  set(cblas_FOUND ${cblas_FOUND} PARENT_SCOPE)
endfunction()

# bert_hpc_other_mpi(RESULT HDF5-LIBRARIES MPI-LIBRARIES): a parallel HDF5 links the MPI that it was built with. If that
# is not ours, RESULT describes the conflict: two MPIs in one process crash at start. A serial HDF5 suffices, because we
# use nothing of HDF5 that needs MPI.
function(bert_hpc_other_mpi result hdf5_libraries mpi_libraries)
  set(${result} "" PARENT_SCOPE)
  set(names "")
  set(needed "")
  foreach(kind mpi hdf5)
    foreach(library ${${kind}_libraries})
      if(NOT CMAKE_READELF OR NOT library MATCHES "/lib[^/]*\\.so[^/]*$")
        continue()
      endif()
      execute_process(COMMAND ${CMAKE_READELF} -d "${library}" OUTPUT_VARIABLE said ERROR_QUIET)
      if(kind STREQUAL "mpi" AND said MATCHES "\\(SONAME\\)[^[]*\\[([^]]+)\\]")
        list(APPEND names "${CMAKE_MATCH_1}")
      elseif(kind STREQUAL "hdf5" AND said MATCHES "\\(NEEDED\\)[^[]*\\[(libmpi[^]]*)\\]")
        list(APPEND needed "${CMAKE_MATCH_1}")
      endif()
    endforeach()
  endforeach()
  foreach(one ${needed})
    if(names AND NOT one IN_LIST names)
      list(JOIN names " " ours)
      set(${result} "this HDF5 was built with the MPI of ${one}, and ours is ${ours}: give one of this MPI or a serial one, which HDF5_ROOT may name" PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()
