# A folder under easydel/ is an object library; together they are the one library `easydel`.
include_guard()

add_library(easydel)
add_library(easydel::easydel ALIAS easydel)

# What every one of our targets compiles with.
add_library(easydel_common INTERFACE)
target_link_libraries(easydel_common INTERFACE easydel_flags ${TORCH_LIBRARIES} Threads::Threads)
target_include_directories(easydel_common INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
target_include_directories(easydel_common SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})

# The lean set of torch headers, compiled once; everything that says `PCH` reuses it.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/pch.cpp CONTENT "// Holds the precompiled header.\n")
add_library(easydel_pch OBJECT ${PROJECT_BINARY_DIR}/generated/pch.cpp)
target_link_libraries(easydel_pch PRIVATE easydel_common)
target_precompile_headers(easydel_pch PRIVATE ${PROJECT_SOURCE_DIR}/cmake/pch.h)

# Unity builds: several files of a folder are compiled as one, which parses torch's headers once for all of them.
# The fewer and larger the units, the less work in all; two cores still want a few units for each folder.
# easydel_unity(target batch_size files) replaces the files in the variable by units. They are not CMake's own, which
# include files by absolute paths, so that ccache's entries would serve no other clone.
function(easydel_unity target batch_size files)
  string(REGEX REPLACE "^easydel_(.*)_(sources|lean)$" "\\1" _folder ${target})
  if(NOT EASYDEL_UNITY OR _folder IN_LIST EASYDEL_UNITY_EXCEPT)
    return()
  endif()
  set(_sources "")
  set(_unit "")
  set(_count 0)
  foreach(_file IN LISTS ${files})
    get_source_file_property(_alone ${_file} SKIP_UNITY_BUILD_INCLUSION)
    get_source_file_property(_options ${_file} COMPILE_OPTIONS)
    get_source_file_property(_definitions ${_file} COMPILE_DEFINITIONS)
    if(_alone OR _options OR _definitions OR IS_ABSOLUTE ${_file})  # absolute: generated while building
      list(APPEND _sources ${_file})
      continue()
    endif()
    math(EXPR _place "${_count} % ${batch_size}")
    if(_place EQUAL 0)
      set(_unit ${CMAKE_CURRENT_BINARY_DIR}/unity/${target}_${_count}.cpp)
      list(APPEND _sources ${_unit})
      set(${_unit} "")
    endif()
    math(EXPR _count "${_count} + 1")
    file(RELATIVE_PATH _path ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${_file})
    string(APPEND ${_unit} "#include \"${_path}\"\n")
  endforeach()
  foreach(_file IN LISTS _sources)
    if(DEFINED ${_file})
      file(CONFIGURE OUTPUT ${_file} CONTENT "${${_file}}")  # written only when it differs
    endif()
  endforeach()
  set(${files} ${_sources} PARENT_SCOPE)
endfunction()

# The objects of one folder: SOURCES with the precompiled header of `pch`, LEAN files without it, since they need little
# of torch or flags of their own. Files with flags of their own are compiled alone.
function(easydel_objects target pch)
  cmake_parse_arguments(arg "" "" "SOURCES;LEAN;LINK" ${ARGN})
  set(_objects "")
  set(SOURCES_per_unit 8)
  set(LEAN_per_unit 12)
  foreach(kind SOURCES LEAN)
    if(arg_${kind})
      string(TOLOWER ${target}_${kind} _name)
      set(_files ${arg_${kind}})
      easydel_unity(${_name} ${${kind}_per_unit} _files)
      add_library(${_name} OBJECT ${_files})
      target_link_libraries(${_name} PRIVATE easydel_common ${arg_LINK})
      list(APPEND _objects $<TARGET_OBJECTS:${_name}>)
    endif()
  endforeach()
  if(arg_SOURCES)
    target_precompile_headers(${target}_sources REUSE_FROM ${pch})
  endif()
  set(${target}_objects ${_objects} PARENT_SCOPE)
endfunction()

# easydel_library(sharding SOURCES mesh.cpp … DEPENDS core [LINK targets] [LEAN a.cpp …])
# DEPENDS names the folders that this one may include, directly; tests/include_direction.py checks it.
function(easydel_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS;LINK;LEAN" ${ARGN})
  easydel_objects(easydel_${name} easydel_pch SOURCES ${arg_SOURCES} LEAN ${arg_LEAN} LINK ${arg_LINK})
  target_sources(easydel PRIVATE ${easydel_${name}_objects})
  if(arg_LINK)
    target_link_libraries(easydel PRIVATE "$<BUILD_INTERFACE:${arg_LINK}>")
  endif()
endfunction()

# easydel_command(cli SOURCES … LEAN … DEPENDS …): the `easydel` program.
function(easydel_command name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS;LINK;LEAN" ${ARGN})
  easydel_objects(easydel_${name} easydel_pch SOURCES ${arg_SOURCES} LEAN ${arg_LEAN} LINK CLI11::CLI11 ${arg_LINK})
  add_executable(easydel_${name} ${easydel_${name}_objects})
  set_target_properties(easydel_${name} PROPERTIES
    OUTPUT_NAME easydel RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  target_link_libraries(easydel_${name} PRIVATE easydel easydel_common ${arg_LINK})
endfunction()

# easydel_program(name SOURCES … [LINK …]): a program on top of the library, for examples and benchmarks.
function(easydel_program name)
  cmake_parse_arguments(arg "LEAN" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE easydel easydel_common ${arg_LINK})
  if(NOT arg_LEAN)
    target_precompile_headers(${name} REUSE_FROM easydel_pch)
  endif()
endfunction()

# The seconds that a suite or a script may take; a sanitizer makes everything slower.
set(EASYDEL_TEST_TIMEOUT 1500)
if(EASYDEL_SANITIZE)
  set(EASYDEL_TEST_TIMEOUT 3000)
endif()

# easydel_test(core SOURCES core/json_test.cpp … LABELS unit [LINK …] [LEAN …]): one program for each folder; every
# suite is a ctest of its own. With WHOLE the program is one ctest: many quick suites would each load libtorch.
function(easydel_test name)
  cmake_parse_arguments(arg "WHOLE" "" "SOURCES;LABELS;LINK;LEAN" ${ARGN})
  easydel_objects(${name}_test easydel_test_pch SOURCES ${arg_SOURCES} LEAN ${arg_LEAN} LINK easydel_test_flags ${arg_LINK})
  add_executable(${name}_test ${${name}_test_objects})
  target_link_libraries(${name}_test PRIVATE easydel easydel_common easydel_test_flags easydel_test_main ${arg_LINK})
  if(arg_WHOLE)
    add_test(NAME ${name} COMMAND ${name}_test)
    set_tests_properties(${name} PROPERTIES
      LABELS "${arg_LABELS}" TIMEOUT ${EASYDEL_TEST_TIMEOUT} ENVIRONMENT OMP_NUM_THREADS=1)
    return()
  endif()
  set(_file ${CMAKE_CURRENT_BINARY_DIR}/${name}_suites.cmake)
  file(GENERATE OUTPUT ${_file} CONTENT "set(name ${name})
set(program \"$<TARGET_FILE:${name}_test>\")
set(properties LABELS \"${arg_LABELS}\" TIMEOUT ${EASYDEL_TEST_TIMEOUT} ENVIRONMENT OMP_NUM_THREADS=1)
include(\"${PROJECT_SOURCE_DIR}/cmake/EasydelSuites.cmake\")
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${_file})
endfunction()
