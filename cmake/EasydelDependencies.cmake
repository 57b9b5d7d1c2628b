# libtorch is required; all else is found and used when present, and reported when absent.
include_guard()

if(NOT EASYDEL_TORCH)
  set(EASYDEL_TORCH "$ENV{EASYDEL_TORCH}")
endif()
if(NOT EASYDEL_TORCH)
  file(GLOB _torch_in_venv ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
  if(_torch_in_venv)
    set(EASYDEL_TORCH ${_torch_in_venv})
  endif()
endif()
if(NOT EASYDEL_TORCH)
  message(FATAL_ERROR "No libtorch. Run `make setup`, which puts one into .venv, or set EASYDEL_TORCH to a libtorch or "
                      "to the directory of an installed torch package (python3 -c 'import torch; print(torch.__path__[0])').")
endif()
if(NOT EXISTS ${EASYDEL_TORCH}/share/cmake/Torch/TorchConfig.cmake)
  message(FATAL_ERROR "EASYDEL_TORCH=${EASYDEL_TORCH} holds no libtorch: share/cmake/Torch/TorchConfig.cmake is missing.")
endif()
include(${EASYDEL_TORCH}/share/cmake/Torch/TorchConfigVersion.cmake)
set(EASYDEL_TORCH_VERSION ${PACKAGE_VERSION})
if(EASYDEL_TORCH_VERSION VERSION_LESS 2.11)
  message(FATAL_ERROR "torch 2.11 or newer is needed; ${EASYDEL_TORCH} is ${EASYDEL_TORCH_VERSION}.")
endif()

# torch's own files ask for kineto and warn that it is missing; that is noise.
set(_quiet ${CMAKE_MESSAGE_LOG_LEVEL})
set(CMAKE_MESSAGE_LOG_LEVEL ERROR)
unset(Torch_DIR CACHE)  # another EASYDEL_TORCH than last time must not find last time's
find_package(Torch REQUIRED CONFIG PATHS ${EASYDEL_TORCH}/share/cmake/Torch NO_DEFAULT_PATH)
set(CMAKE_MESSAGE_LOG_LEVEL ${_quiet})

find_package(Threads REQUIRED)
set(EASYDEL_HAS_CUDA OFF)
if(TARGET torch_cuda)
  set(EASYDEL_HAS_CUDA ON)
endif()

if(EASYDEL_REQUIRE_CUDA AND NOT EASYDEL_HAS_CUDA)
  message(FATAL_ERROR "EASYDEL_REQUIRE_CUDA is on (the preset cuda sets it), but the torch in ${EASYDEL_TORCH} was built "
                      "without CUDA. Set EASYDEL_TORCH to one with CUDA, or use the preset release.")
endif()

find_package(MPI QUIET COMPONENTS C)
set(EASYDEL_HAS_MPI ${MPI_C_FOUND})

set(EASYDEL_HAS_NCCL OFF)
if(EASYDEL_HAS_CUDA)
  cmake_path(GET EASYDEL_TORCH PARENT_PATH _site_packages)
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${_site_packages}/nvidia/nccl/include)
  find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${_site_packages}/nvidia/nccl/lib)
  if(NCCL_INCLUDE_DIR AND NCCL_LIBRARY)
    set(EASYDEL_HAS_NCCL ON)
  endif()
endif()

find_package(CURL QUIET)
set(EASYDEL_HAS_CURL ${CURL_FOUND})
find_package(OpenSSL QUIET COMPONENTS Crypto SSL)
set(EASYDEL_HAS_OPENSSL ${OPENSSL_FOUND})
find_package(ZLIB QUIET)
set(EASYDEL_HAS_ZLIB ${ZLIB_FOUND})
find_package(CLI11 QUIET CONFIG)
set(EASYDEL_HAS_CLI ${CLI11_FOUND})

# Beast and Asio are headers only. 1.74 is the oldest Boost that has been tried.
find_path(BOOST_INCLUDE_DIR boost/beast/version.hpp)
set(EASYDEL_HAS_BEAST OFF)
if(BOOST_INCLUDE_DIR)
  file(STRINGS ${BOOST_INCLUDE_DIR}/boost/version.hpp _boost_version REGEX "^#define BOOST_VERSION [0-9]+")
  string(REGEX MATCH "[0-9]+" _boost_version "${_boost_version}")
  if(_boost_version GREATER_EQUAL 107400)
    set(EASYDEL_HAS_BEAST ON)
    add_library(easydel_beast INTERFACE)
    target_include_directories(easydel_beast SYSTEM INTERFACE $<BUILD_INTERFACE:${BOOST_INCLUDE_DIR}>)
  endif()
endif()

# Libraries that come with a pkg-config file: EASYDEL_HAS_<name> and the target PkgConfig::<name>.
find_package(PkgConfig QUIET)
foreach(_library PCRE2=libpcre2-8 UTF8PROC=libutf8proc SENTENCEPIECE=sentencepiece EDIT=libedit ZSTD=libzstd
                 YAML=yaml-cpp JPEG=libjpeg PNG=libpng WEBP=libwebpdemux GIF=libgif SNDFILE=sndfile)
  string(REPLACE "=" ";" _library ${_library})
  list(POP_FRONT _library _name _module)
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(${_name} QUIET IMPORTED_TARGET ${_module})
  endif()
  set(EASYDEL_HAS_${_name} ${${_name}_FOUND})
endforeach()

# Arrow's C++ library: one that CMake finds, or the one inside of the pyarrow package beside torch.
find_package(Arrow QUIET CONFIG)
find_package(Parquet QUIET CONFIG)
set(EASYDEL_HAS_ARROW OFF)
if(TARGET Parquet::parquet_shared)
  set(EASYDEL_HAS_ARROW ON)
else()
  cmake_path(GET EASYDEL_TORCH PARENT_PATH _site_packages)
  file(GLOB _arrow_libraries ${_site_packages}/pyarrow/libarrow.so.* ${_site_packages}/pyarrow/libparquet.so.*)
  list(LENGTH _arrow_libraries _count)
  if(_count EQUAL 2 AND EXISTS ${_site_packages}/pyarrow/include/parquet/arrow/reader.h)
    add_library(Parquet::parquet_shared INTERFACE IMPORTED)
    target_include_directories(Parquet::parquet_shared SYSTEM INTERFACE ${_site_packages}/pyarrow/include)
    target_link_libraries(Parquet::parquet_shared INTERFACE ${_arrow_libraries})
    set(EASYDEL_HAS_ARROW ON)
  endif()
endif()

# xgrammar's sources, where scripts/setup.sh unpacks them unless EASYDEL_XGRAMMAR names another place.
if(NOT EASYDEL_XGRAMMAR)
  set(EASYDEL_XGRAMMAR "$ENV{EASYDEL_XGRAMMAR}")
endif()
if(NOT EASYDEL_XGRAMMAR)
  set(EASYDEL_XGRAMMAR ${PROJECT_SOURCE_DIR}/.venv/xgrammar-0.2.8)
elseif(NOT EXISTS ${EASYDEL_XGRAMMAR}/include/xgrammar/xgrammar.h)
  message(FATAL_ERROR "EASYDEL_XGRAMMAR=${EASYDEL_XGRAMMAR} holds no xgrammar: include/xgrammar/xgrammar.h is missing.")
endif()
set(EASYDEL_HAS_XGRAMMAR OFF)
if(EXISTS ${EASYDEL_XGRAMMAR}/include/xgrammar/xgrammar.h)
  set(EASYDEL_HAS_XGRAMMAR ON)
  include(EasydelXgrammar)
  easydel_add_xgrammar(${EASYDEL_XGRAMMAR})
endif()

# name | what it gives | the Debian package that brings it
set(EASYDEL_FEATURES
    "CUDA|GPUs|a torch built for CUDA, named by EASYDEL_TORCH"
    "NCCL|collectives between GPUs|the nvidia-nccl package beside torch"
    "MPI|ranks on several hosts|libopenmpi-dev"
    "CURL|the Hugging Face hub|libcurl4-openssl-dev"
    "OPENSSL|fast hashes of downloads and uploads, TLS of the server|libssl-dev"
    "ZLIB|compressed torch checkpoints|zlib1g-dev"
    "PCRE2|regular expressions of tokenizers|libpcre2-dev"
    "UTF8PROC|Unicode normal forms of tokenizers|libutf8proc-dev"
    "SENTENCEPIECE|tokenizer.model files|libsentencepiece-dev"
    "EDIT|editing the line in easydel chat|libedit-dev"
    "ZSTD|data files compressed with zstd|libzstd-dev"
    "ARROW|Parquet and Arrow files|the pyarrow package beside torch, or libparquet-dev"
    "YAML|easydel elarge|libyaml-cpp-dev"
    "BEAST|the HTTP server|libboost-dev"
    "XGRAMMAR|answers that follow a JSON schema or a grammar|scripts/setup.sh build, or EASYDEL_XGRAMMAR names its sources"
    "JPEG|JPEG images|libjpeg62-turbo-dev"
    "PNG|PNG images|libpng-dev"
    "WEBP|WebP images|libwebp-dev"
    "GIF|GIF images|libgif-dev"
    "SNDFILE|recordings: WAV, FLAC, Ogg, MP3|libsndfile1-dev"
    "CLI|the easydel command|libcli11-dev")

function(easydel_print_features)
  message(STATUS "easydel ${PROJECT_VERSION}, torch ${EASYDEL_TORCH_VERSION}, ${CMAKE_CXX_COMPILER_ID} "
                 "${CMAKE_CXX_COMPILER_VERSION}, ${CMAKE_BUILD_TYPE}")
  foreach(feature IN LISTS EASYDEL_FEATURES)
    string(REPLACE "|" ";" parts "${feature}")
    list(GET parts 0 name)
    list(GET parts 1 purpose)
    list(GET parts 2 source)
    if(EASYDEL_HAS_${name})
      message(STATUS "  ${name}: yes (${purpose})")
    else()
      message(STATUS "  ${name}: no (${purpose}); it comes with ${source}")
    endif()
  endforeach()
endfunction()
