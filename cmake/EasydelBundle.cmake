# Run by cpack, with `program`, `destination`, `licenses` and `site_packages` set: copies the libraries that `program`
# loads to `destination`, and their licenses.
cmake_policy(VERSION 3.25)

# What libc6, libstdc++6, libgcc-s1 and the driver of a GPU bring.
set(on_every_system "^(ld-linux.*|lib(c|m|mvec|dl|rt|pthread|resolv|util|anl|stdc\\+\\+|gcc_s|cuda|nvidia-ml))\\.so")

execute_process(COMMAND ldd ${program} OUTPUT_VARIABLE lines COMMAND_ERROR_IS_FATAL ANY)
if(lines MATCHES "[^\n]+ => not found")
  message(FATAL_ERROR "${program}: ${CMAKE_MATCH_0}")
endif()
string(REGEX MATCHALL "[^ \t\n]+ => /[^ \n]+" lines "${lines}")
cmake_path(GET program PARENT_PATH prefix)
cmake_path(GET prefix PARENT_PATH prefix)
set(bundled "")
set(packages "")
file(MAKE_DIRECTORY ${destination} ${licenses})
foreach(line IN LISTS lines)
  string(REGEX MATCH "^([^ ]+) => (.+)$" line "${line}")
  set(name ${CMAKE_MATCH_1})
  file(REAL_PATH ${CMAKE_MATCH_2} library)
  string(FIND ${library} ${prefix}/ position)
  if(name MATCHES "${on_every_system}" OR position EQUAL 0)
    continue()
  endif()
  file(COPY_FILE ${library} ${destination}/${name})  # under the one name that the loader asks for
  file(RPATH_REMOVE FILE ${destination}/${name})     # the program's own says where to look, for all of them
  list(APPEND bundled ${name})
  # dpkg may know the file by its path from before /lib became a link to /usr/lib.
  string(REGEX REPLACE "^/usr" "" short ${library})
  execute_process(COMMAND dpkg-query -S ${library} ${short} OUTPUT_VARIABLE owner ERROR_QUIET)
  if(owner MATCHES "^([^:, ]+)")
    list(APPEND packages ${CMAKE_MATCH_1})
  endif()
endforeach()
list(REMOVE_DUPLICATES packages)
foreach(package IN LISTS packages)
  if(EXISTS /usr/share/doc/${package}/copyright)
    configure_file(/usr/share/doc/${package}/copyright ${licenses}/${package} COPYONLY)
  endif()
endforeach()
foreach(package torch pyarrow)
  file(GLOB texts ${site_packages}/${package}-*.dist-info/licenses/* ${site_packages}/${package}-*.dist-info/LICENSE*
       ${site_packages}/${package}-*.dist-info/NOTICE*)
  file(COPY ${texts} DESTINATION ${licenses}/${package})
endforeach()
list(LENGTH bundled count)
string(REPLACE ";" " " bundled "${bundled}")
message(STATUS "bundled ${count} libraries: ${bundled}")
