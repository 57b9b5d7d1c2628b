# The pages as a C++ file: cmake -DPAGES=this folder -DOUTPUT=page.cpp -P embed.cmake
foreach(name chat dashboard)
  file(READ ${PAGES}/${name}.html ${name})
  string(FIND "${${name}}" ")easydel-page\"" found)
  if(NOT found EQUAL -1)
    message(FATAL_ERROR "${name}.html must not contain the end of the literal that holds it.")
  endif()
endforeach()
configure_file(${PAGES}/page.cpp.in ${OUTPUT} @ONLY)
