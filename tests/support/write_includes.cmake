# cmake -D SOURCES=… -D OUTPUT=… -P write_includes.cmake: a header with each #include line of these sources once, in
# their order. OUTPUT is written only when it changes.
set(lines "#pragma once\n")
foreach(source ${SOURCES})
  file(STRINGS ${source} includes REGEX "^#include")
  foreach(include ${includes})
    string(FIND "${lines}" "${include}\n" place)
    if(place EQUAL -1)
      string(APPEND lines "${include}\n")
    endif()
  endforeach()
endforeach()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "${lines}" @ONLY)
