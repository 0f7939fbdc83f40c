# An installed program finds libraries in modules' or Spack's folders without LD_LIBRARY_PATH, because their folders are
# in its RUNPATH. CMake omits folders that the compiler reports as its own; GCC reports all of LIBRARY_PATH (which a
# library's module sets) and its own folder if it comes from a module, and the dynamic linker knows neither. It knows
# folders below /usr/lib and /lib. Folders of stubs (CUDA's libcuda.so for linking) must never be searched at run time.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
foreach(language C CXX)
  list(FILTER CMAKE_${language}_IMPLICIT_LINK_DIRECTORIES INCLUDE REGEX "^(/usr)?/lib(32|64|x32)?(/|$)|/stubs/?$")
endforeach()
