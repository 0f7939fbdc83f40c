# An installed program finds libraries in modules' or Spack's folders without LD_LIBRARY_PATH: their folders stand in its
# RUNPATH. CMake leaves those out that the compiler names as its own, which GCC also does with all of LIBRARY_PATH (what a
# module of a library sets) and with its own folder where it comes from a module; neither is known to the dynamic linker.
# What is below /usr/lib or /lib is. Folders of stubs (CUDA's libcuda.so to link with) must never be searched at a start.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
foreach(language C CXX)
  list(FILTER CMAKE_${language}_IMPLICIT_LINK_DIRECTORIES INCLUDE REGEX "^(/usr)?/lib(32|64|x32)?(/|$)|/stubs/?$")
endforeach()
