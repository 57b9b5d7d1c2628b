# Standard, warnings, sanitizers; ccache and a fast linker when the machine has them.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# One precompiled header serves libraries and programs, and g++ takes it only under the very same flags.
set(CMAKE_CXX_COMPILE_OPTIONS_PIE -fPIC)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

find_program(EASYDEL_CCACHE ccache)
if(EASYDEL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # pch_defines and time_macros let ccache hit on files that use the precompiled header; without the folder's name in
  # paths and hashes, a clone in another folder hits as well.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=true ${EASYDEL_CCACHE})
endif()

foreach(linker mold lld)
  find_program(EASYDEL_LINKER_${linker} NAMES ${linker} ld.${linker})
  if(EASYDEL_LINKER_${linker} AND NOT EASYDEL_LINKER)
    set(EASYDEL_LINKER ${linker})
    add_link_options(-fuse-ld=${linker})
  endif()
endforeach()

add_library(easydel_flags INTERFACE)
target_compile_options(easydel_flags INTERFACE -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers)
if(EASYDEL_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # GCC takes every file of a unity build but the first for a header, where anonymous namespaces would be a mistake.
  target_compile_options(easydel_flags INTERFACE -Wno-subobject-linkage)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(easydel_flags INTERFACE -Wno-restrict)  # GCC 12 sees overlaps in std::string that are not there
elseif(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  # GCC 13 takes an argument for the result, and loses sight of which alternative a variant holds.
  target_compile_options(easydel_flags INTERFACE -Wno-dangling-reference -Wno-maybe-uninitialized)
endif()
if(EASYDEL_WERROR)
  target_compile_options(easydel_flags INTERFACE -Werror)
endif()
if(EASYDEL_SANITIZE)
  target_compile_options(easydel_flags INTERFACE -fsanitize=${EASYDEL_SANITIZE} -fno-omit-frame-pointer -g1)
  if(EASYDEL_SANITIZE MATCHES undefined)
    target_compile_options(easydel_flags INTERFACE -fno-sanitize-recover=undefined)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(easydel_flags INTERFACE -Wno-maybe-uninitialized)  # GCC loses track in std::regex, sanitized
    if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13 AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
      # and GCC 13 in copies of short vectors
      target_compile_options(easydel_flags INTERFACE -Wno-array-bounds -Wno-stringop-overread)
    endif()
    if(EASYDEL_SANITIZE MATCHES thread)
      target_compile_options(easydel_flags INTERFACE -Wno-tsan)  # torch's headers have fences, which it cannot follow
    endif()
  endif()
  target_link_options(easydel_flags INTERFACE -fsanitize=${EASYDEL_SANITIZE})
endif()

# at::parallel_for is silently serial in a file that is compiled without OpenMP.
find_package(OpenMP QUIET COMPONENTS CXX)
if(EASYDEL_SANITIZE MATCHES thread)
  target_compile_options(easydel_flags INTERFACE -fopenmp-simd)  # without threads: it cannot see libgomp's barriers
elseif(OpenMP_CXX_FOUND)
  target_compile_options(easydel_flags INTERFACE ${OpenMP_CXX_FLAGS})
endif()
